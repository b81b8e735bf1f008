//! The company's tenants with their sites, users and hosts, which recur in the events.

use super::random::{Random, mix};
use super::text::{write_ipv4, write_mac, write_uuid};
use super::words::{CITIES, DEPARTMENTS, FIRST_NAMES, HOST_KINDS, ISPS, LAST_NAMES, SITE_KINDS, SYSTEMS};

/// Share of the largest tenant, if there are enough tenants for it to be the largest.
const LARGEST_SHARE: f64 = 0.2;
/// Hosts of all tenants together, divided by their shares, in addition to each tenant's first few.
const HOSTS: f64 = 30_000.0;
/// Slots of the table that tenants are drawn from.
const DRAWS: usize = 1 << 16;

pub(crate) struct World {
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) sites: Vec<Site>,
    pub(crate) users: Vec<User>,
    pub(crate) hosts: Vec<Host>,
    draws: Vec<u32>,
}

pub(crate) struct Tenant {
    pub(crate) name: Box<[u8]>,
    pub(crate) first_site: usize,
    pub(crate) site_count: usize,
    pub(crate) first_user: usize,
    pub(crate) user_count: usize,
    first_host: usize,
    host_count: usize,
}

pub(crate) struct Site {
    pub(crate) name: Box<[u8]>,
    pub(crate) city: usize,
    pub(crate) pop: usize,
    pub(crate) isp: usize,
    /// 10.x.y.0
    pub(crate) subnet: u32,
    /// The first 64 bits of its IPv6 addresses.
    pub(crate) prefix6: u64,
}

pub(crate) struct User {
    pub(crate) name: Box<[u8]>,
    pub(crate) email: Box<[u8]>,
    pub(crate) department: usize,
}

pub(crate) struct Host {
    pub(crate) name: Box<[u8]>,
    pub(crate) ip: Box<[u8]>,
    pub(crate) mac: Box<[u8]>,
    pub(crate) device: Box<[u8]>,
    pub(crate) serial: Box<[u8]>,
    pub(crate) system: usize,
    pub(crate) site: usize,
    pub(crate) user: usize,
}

/// Subject of an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject {
    pub(crate) tenant: usize,
    pub(crate) site: usize,
    pub(crate) user: usize,
    pub(crate) host: usize,
}

impl World {
    pub(crate) fn new(seed: u64, tenant_count: usize) -> Self {
        let mut random = Random::new(mix(seed));
        let shares = zipf_shares(tenant_count);
        let mut world = Self {
            tenants: Vec::new(),
            sites: Vec::new(),
            users: Vec::new(),
            hosts: Vec::new(),
            draws: Vec::new(),
        };
        for (number, share) in shares.iter().enumerate() {
            world.add_tenant(&mut random, number, *share);
        }
        let mut cumulative = 0.0;
        for (number, share) in shares.iter().enumerate() {
            cumulative += share;
            world
                .draws
                .resize((cumulative * DRAWS as f64).round() as usize, number as u32);
        }
        world.draws.resize(DRAWS, 0);
        world
    }

    fn add_tenant(&mut self, random: &mut Random, number: usize, share: f64) {
        let site_count = 3 + (share * 400.0) as usize;
        let host_count = 12 + (share * HOSTS) as usize;
        let user_count = 8 + host_count * 2 / 3;
        let tenant = Tenant {
            name: format!("tenant-{:03}", number + 1).into_bytes().into(),
            first_site: self.sites.len(),
            site_count,
            first_user: self.users.len(),
            user_count,
            first_host: self.hosts.len(),
            host_count,
        };
        for site in 0..site_count {
            let city = random.skewed(CITIES.len());
            let kind = SITE_KINDS[random.skewed(SITE_KINDS.len())];
            let place = CITIES[city].0.to_lowercase().replace(' ', "-");
            self.sites.push(Site {
                name: format!("{place}-{kind}-{:02}", site + 1).into_bytes().into(),
                city,
                pop: random.skewed(CITIES.len()),
                isp: random.below(ISPS.len() as u64) as usize,
                subnet: 10 << 24 | (number as u32 % 250) << 16 | (site as u32 % 250) << 8,
                prefix6: 0x2001_0db8 << 32 | (number as u64 & 0xffff) << 16 | site as u64,
            });
        }
        for user in 0..user_count {
            let first = FIRST_NAMES[random.below(FIRST_NAMES.len() as u64) as usize];
            let last = LAST_NAMES[random.below(LAST_NAMES.len() as u64) as usize];
            let name = if user < 200 {
                format!("{first}.{last}")
            } else {
                format!("{first}.{last}{}", user / 200)
            };
            self.users.push(User {
                email: format!("{name}@tenant-{:03}.example", number + 1).into_bytes().into(),
                name: name.into_bytes().into(),
                department: random.skewed(DEPARTMENTS.len()),
            });
        }
        for host in 0..host_count {
            let site = tenant.first_site + random.skewed(site_count);
            let kind = HOST_KINDS[random.skewed(HOST_KINDS.len())];
            let address = self.sites[site].subnet | (2 + random.below(250) as u32);
            let mut device = Vec::new();
            write_uuid(&mut device, random.next(), random.next());
            let (mut ip, mut mac) = (Vec::new(), Vec::new());
            write_ipv4(&mut ip, address);
            write_mac(&mut mac, random.next() >> 16 & 0xfe_ffff_ffff_ffff);
            self.hosts.push(Host {
                name: format!("{kind}-{:05}", 1000 + host).into_bytes().into(),
                ip: ip.into(),
                mac: mac.into(),
                device: device.into(),
                serial: format!("{:012}", mix(random.next()) % 1_000_000_000_000)
                    .into_bytes()
                    .into(),
                system: random.skewed(SYSTEMS.len()),
                site,
                user: tenant.first_user + random.skewed(user_count),
            });
        }
        self.tenants.push(tenant);
    }

    pub(crate) fn draw_tenant(&self, random: &mut Random) -> usize {
        self.draws[random.below(DRAWS as u64) as usize] as usize
    }

    /// Draws a host of the tenant, its site and, mostly, the host's user.
    pub(crate) fn draw_subject(&self, random: &mut Random, tenant: usize) -> Subject {
        let of = &self.tenants[tenant];
        let host = of.first_host + random.skewed(of.host_count);
        let user = match random.percent(92) {
            true => self.hosts[host].user,
            false => self.draw_user(random, tenant),
        };
        Subject {
            tenant,
            site: self.hosts[host].site,
            user,
            host,
        }
    }

    pub(crate) fn draw_user(&self, random: &mut Random, tenant: usize) -> usize {
        let of = &self.tenants[tenant];
        of.first_user + random.skewed(of.user_count)
    }
}

/// Returns the shares of `count` tenants, proportional to a power of the rank that gives the first one
/// [`LARGEST_SHARE`]; all equal if there are too few tenants for that.
fn zipf_shares(count: usize) -> Vec<f64> {
    let shares = |exponent: f64| -> Vec<f64> {
        let weights: Vec<f64> = (1..=count).map(|rank| (rank as f64).powf(-exponent)).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / sum).collect()
    };
    let (mut low, mut high) = (0.0, 4.0);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        match shares(middle).first() {
            Some(first) if *first < LARGEST_SHARE => low = middle,
            _ => high = middle,
        }
    }
    shares(high)
}
