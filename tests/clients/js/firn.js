// A firn of the test run's own.

import { spawn } from 'node:child_process'
import { mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

function freePort () {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })
}

// Starts FIRN_BINARY on a free port; `stop` ends it and fails unless it ends cleanly.
export async function start () {
  const folder = mkdtempSync(join(tmpdir(), 'firn-js-'))
  const port = await freePort()
  const log = openSync(join(folder, 'log'), 'w')
  const child = spawn(process.env.FIRN_BINARY, ['serve', '-E', `http.port=${port}`, '-E', `path.data=${join(folder, 'data')}`],
    { stdio: ['ignore', log, log] })
  const ended = new Promise(resolve => child.once('exit', resolve))
  const url = `http://127.0.0.1:${port}`
  for (const deadline = Date.now() + 60_000; ;) {
    try {
      await fetch(url)
      break
    } catch (error) {
      if (child.exitCode !== null || Date.now() > deadline) throw new Error(readFileSync(join(folder, 'log'), 'utf8'), { cause: error })
      await new Promise(resolve => setTimeout(resolve, 50))
    }
  }
  const stop = async () => {
    child.kill('SIGTERM')
    const code = await ended
    if (code !== 0) throw new Error(`firn ended with ${code}: ${readFileSync(join(folder, 'log'), 'utf8')}`)
    rmSync(folder, { recursive: true })
  }
  return { url, stop }
}
