// What people do with the official JavaScript clients of Elasticsearch 8 and 9, unmodified, against firn.

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'

import * as elasticsearch8 from 'elasticsearch8'
import * as elasticsearch9 from 'elasticsearch9'

import { start } from './firn.js'

const COUNT = 600
const START = Date.UTC(2026, 2, 1)
const HOUR = 3_600_000
const TIMEOUTS = Array.from({ length: COUNT / 50 }, (_, step) => step * 50)

const firn = await start()
after(() => firn.stop())

function * events () {
  for (let number = 0; number < COUNT; number++) {
    yield {
      '@timestamp': new Date(START + number * HOUR).toISOString(),
      number,
      tenant: `t${number % 6}`,
      size: number * 1.5,
      ip: `10.0.${number % 4}.${number % 200}`,
      ok: number % 3 === 0,
      message: `the ${number % 2 ? 'lazy' : 'quick'} fox${number % 50 ? '' : ' timeout'}`
    }
  }
}

for (const [name, { Client, errors }] of Object.entries({ elasticsearch8, elasticsearch9 })) {
  describe(name, () => {
    const index = `tour-${name}`
    let client

    const numbers = async (query) => {
      const found = await client.search({ index, query, size: COUNT, sort: [{ number: 'asc' }] })
      return found.hits.hits.map(hit => hit._source.number)
    }
    const aggregate = async (aggs) => (await client.search({ index, size: 0, aggs })).aggregations

    before(async () => {
      client = new Client({ node: firn.url })
      await client.indices.create({
        index,
        settings: { number_of_shards: 2, number_of_replicas: 0 },
        mappings: {
          properties: {
            '@timestamp': { type: 'date' },
            number: { type: 'long' },
            tenant: { type: 'keyword' },
            size: { type: 'double' },
            ip: { type: 'ip' },
            ok: { type: 'boolean' },
            message: { type: 'text' }
          }
        }
      })
      const result = await client.helpers.bulk({
        datasource: [...events()],
        onDocument: (event) => ({ index: { _index: index, _id: String(event.number) } }),
        onDrop: (dropped) => assert.fail(JSON.stringify(dropped)),
        refreshOnCompletion: index
      })
      assert.equal(result.successful, COUNT)
    })
    after(async () => { await client.close() })

    it('knows the server', async () => {
      assert.equal((await client.info()).tagline, 'You Know, for Search')
      assert.equal(await client.ping(), true)
      assert.equal((await client.count({ index })).count, COUNT)
    })

    for (const [query, expected] of [
      [{ term: { number: 7 } }, [7]],
      [{ ids: { values: ['3', '4'] } }, [3, 4]],
      [{ range: { '@timestamp': { gte: '2026-03-02', lt: '2026-03-02||+3h' } } }, [24, 25, 26]],
      [{ match: { message: { query: 'timeuot', fuzziness: 'AUTO' } } }, TIMEOUTS],
      [{ match_phrase: { message: 'fox timeout' } }, TIMEOUTS],
      [{ match_phrase_prefix: { message: 'fox timeo' } }, TIMEOUTS],
      [{ multi_match: { query: 'timeout', fields: ['message', 'tenant'] } }, TIMEOUTS],
      [{ query_string: { query: 'message:timeout AND number:[0 TO 100]' } }, [0, 50, 100]],
      [{ simple_query_string: { query: 'timeout + quick', fields: ['message'] } }, TIMEOUTS],
      [{ wildcard: { message: { value: '*meou?' } } }, TIMEOUTS],
      [{ regexp: { message: { value: 'time[a-z]+' } } }, TIMEOUTS],
      [{ bool: { filter: [{ term: { tenant: 't0' } }], must_not: [{ range: { number: { gt: 12 } } }] } }, [0, 6, 12]],
      [{ dis_max: { queries: [{ term: { number: 1 } }, { term: { number: 2 } }] } }, [1, 2]]
    ]) {
      it(`finds by ${Object.keys(query)[0]}`, async () => {
        assert.deepEqual(await numbers(query), expected)
        assert.equal((await client.indices.validateQuery({ index, query })).valid, true)
      })
    }

    it('scrolls through everything with its helpers', async () => {
      let seen = 0
      for await (const document of client.helpers.scrollDocuments({ index, size: 70, query: { term: { ok: true } } })) {
        assert.equal(document.ok, true)
        seen++
      }
      assert.equal(seen, COUNT / 3)
      const found = await client.helpers.search({ index, query: { term: { number: 5 } } })
      assert.deepEqual(found.map(document => document.tenant), ['t5'])
    })

    it('reads a point in time that stands still', async () => {
      const { id } = await client.openPointInTime({ index, keep_alive: '1m' })
      await client.index({ index, id: 'new', document: { number: 10_000 }, refresh: true })
      const seen = []
      for (let after; ;) {
        const page = await client.search({
          pit: { id, keep_alive: '1m' }, size: 250, sort: [{ number: 'asc' }], ...(after && { search_after: after })
        })
        if (page.hits.hits.length === 0) break
        seen.push(...page.hits.hits.map(hit => hit._source.number))
        after = page.hits.hits.at(-1).sort
      }
      await client.delete({ index, id: 'new', refresh: true })
      assert.deepEqual(seen, Array.from({ length: COUNT }, (_, number) => number))
      assert.equal((await client.closePointInTime({ id })).succeeded, true)
      await assert.rejects(client.search({ pit: { id } }), (error) => error instanceof errors.ResponseError && error.statusCode === 404)
    })

    it('asks many things at once', async () => {
      const { responses } = await client.msearch({
        index, searches: [{}, { size: 0 }, {}, { sort: ['nothing'] }, { index: 'missing' }, { size: 1 }]
      })
      assert.deepEqual(responses.map(response => response.status), [200, 400, 404])
      const searcher = client.helpers.msearch()
      const [one, two] = await Promise.all([1, 2].map(number => searcher.search({ index }, { query: { term: { number } } })))
      searcher.stop()
      assert.deepEqual([one.documents[0].number, two.documents[0].number], [1, 2])
      const { docs } = await client.mget({ index, ids: ['0', 'none'] })
      assert.deepEqual(docs.map(document => document.found), [true, false])
    })

    it('shows parts of hits', async () => {
      const found = await client.search({
        index,
        query: { match: { message: { query: 'timeout', _name: 'by-word' } } },
        size: 1,
        sort: [{ number: 'desc' }],
        _source: ['num*'],
        fields: ['tenant', { field: '@timestamp', format: 'yyyy-MM-dd' }],
        highlight: { fields: { message: {} } },
        profile: true
      })
      const [hit] = found.hits.hits
      assert.deepEqual(hit._source, { number: 550 })
      assert.deepEqual(hit.fields, { tenant: ['t4'], '@timestamp': ['2026-03-23'] })
      assert.match(hit.highlight.message[0], /<em>timeout<\/em>/)
      assert.deepEqual(hit.matched_queries, ['by-word'])
      assert.ok(found.profile.shards.length > 0)
      const collapsed = await client.search({
        index, sort: [{ number: 'asc' }], collapse: { field: 'tenant', inner_hits: { name: 'newest', size: 1, sort: [{ number: 'desc' }] } }
      })
      assert.equal(collapsed.hits.hits.length, 6)
      assert.equal(collapsed.hits.hits[0].inner_hits.newest.hits.hits[0]._source.number, 594)
    })

    it('aggregates', async () => {
      const answer = await aggregate({
        days: { date_histogram: { field: '@timestamp', calendar_interval: 'day', time_zone: '+02:00' }, aggs: { t: { terms: { field: 'tenant' } } } },
        steps: {
          histogram: { field: 'number', interval: 100 },
          aggs: { sum: { sum: { field: 'size' } }, up: { cumulative_sum: { buckets_path: 'sum' } } }
        },
        parts: { range: { field: 'number', ranges: [{ to: 10 }, { from: 10 }] } },
        named: { filters: { filters: { ok: { term: { ok: true } } }, other_bucket_key: 'rest' } },
        without: { missing: { field: 'nothing' } },
        every: { global: {} },
        pages: { composite: { size: 4, sources: [{ tenant: { terms: { field: 'tenant' } } }] } },
        stats: { extended_stats: { field: 'number' } },
        middle: { percentiles: { field: 'number', percents: [50] } },
        distinct: { cardinality: { field: 'ip' } },
        top: { top_hits: { size: 1, sort: [{ number: 'desc' }] } },
        last: { top_metrics: { metrics: { field: 'size' }, sort: { number: 'desc' } } },
        best: { max_bucket: { buckets_path: 'steps>sum' } }
      })
      const counts = (name) => answer[name].buckets.map(bucket => bucket.doc_count)
      assert.equal(counts('days').reduce((sum, count) => sum + count, 0), COUNT)
      assert.deepEqual(counts('steps'), [100, 100, 100, 100, 100, 100])
      assert.equal(answer.steps.buckets.at(-1).up.value, answer.steps.buckets.reduce((sum, bucket) => sum + bucket.sum.value, 0))
      assert.deepEqual(counts('parts'), [10, 590])
      assert.equal(answer.named.buckets.rest.doc_count, 400)
      assert.equal(answer.without.doc_count, COUNT)
      assert.equal(answer.every.doc_count, COUNT)
      assert.deepEqual(answer.pages.after_key, { tenant: 't3' })
      assert.equal(answer.stats.avg, 299.5)
      assert.ok(Math.abs(answer.middle.values['50.0'] - 299.5) < 5)
      assert.equal(answer.distinct.value, 200)
      assert.equal(answer.top.hits.hits[0]._source.number, 599)
      assert.equal(answer.last.top[0].metrics.size, 898.5)
      assert.equal(answer.best.value, answer.steps.buckets.at(-1).sum.value)
    })

    it('lists fields and terms', async () => {
      const { fields } = await client.fieldCaps({ index, fields: '*' })
      assert.equal(fields.tenant.keyword.aggregatable, true)
      const { terms } = await client.termsEnum({ index, field: 'tenant', string: 't', size: 3 })
      assert.deepEqual(terms, ['t0', 't1', 't2'])
    })

    it('is told what is wrong', async () => {
      const fails = async (request, status, type) => {
        await assert.rejects(client.search({ index, ...request }), (error) => {
          assert.ok(error instanceof errors.ResponseError, error)
          assert.equal(error.statusCode, status, error.message)
          assert.ok(JSON.stringify(error.body).includes(type), JSON.stringify(error.body))
          return true
        })
      }
      await fails({ index: 'never-made' }, 404, 'index_not_found_exception')
      await fails({ query: { guess: {} } }, 400, 'parsing_exception')
      await fails({ size: 1_000_000 }, 400, '10000')
      await fails({ sort: ['message'] }, 400, 'Fielddata is disabled')
      await fails({ aggs: { a: { date_histogram: { field: '@timestamp', fixed_interval: '1ms' } } } }, 400, 'too_many_buckets_exception')
    })

    it('stops what it aborts', async () => {
      const leaving = new AbortController()
      const asked = client.search({ index }, { signal: leaving.signal })
      leaving.abort()
      await assert.rejects(asked, errors.RequestAbortedError)
      assert.equal((await client.count({ index })).count, COUNT)
    })
  })
}
