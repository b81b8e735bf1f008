//! Records of the pipeline's benchmark: the same for the same seed, with varied values.

use fastrand::Rng;

/// Networks of the test databases of MaxMind: the first three bytes, and the range of the last.
const NETWORKS: &[(&str, u32, u32)] = &[
    ("81.2.69", 142, 224),
    ("89.160.20", 112, 128),
    ("2.125.160", 216, 224),
    ("67.43.156", 0, 256),
    ("175.16.199", 0, 256),
    ("216.160.83", 56, 64),
];

const USERS: &[&str] = &["ann", "bob", "charlotte", "dimitri", "eve", "farid", "gudrun", "hanna"];
const PROGRAMS: &[&str] = &[
    "cmd.exe",
    "powershell.exe",
    "svchost.exe",
    "WINWORD.EXE",
    "rundll32.exe",
    "chrome.exe",
];

fn pick<'w>(rng: &mut Rng, words: &[&'w str]) -> &'w str {
    words[rng.usize(..words.len())]
}

/// Returns an address: half are of known networks, the others of a large company.
fn address(rng: &mut Rng) -> String {
    if rng.bool() {
        return format!("10.{}.{}.{}", rng.u32(..4), rng.u32(..256), rng.u32(..256));
    }
    let (network, from, to) = NETWORKS[rng.usize(..NETWORKS.len())];
    format!("{network}.{}", rng.u32(from..to))
}

fn hex(rng: &mut Rng, digits: usize) -> String {
    (0..digits)
        .map(|_| char::from_digit(rng.u32(..16), 16).unwrap_or('0'))
        .collect()
}

/// Returns a CEF line with 20 extensions, about 460 bytes.
pub(crate) fn cef(rng: &mut Rng) -> String {
    let (source, destination) = (address(rng), address(rng));
    let user = pick(rng, USERS);
    format!(
        "CEF:0|Example|Firewall|7.{}|{}|Connection {}|{}|rt={} src={source} spt={} dst={destination} dpt={} proto={} \
         act={} suser={user} shost=ws{}.example.org dhost=srv{}.example.org in={} out={} app={} deviceExternalId=A{} \
         cs1=rule-{} cs1Label=Policy cnt={} outcome={} request=https://srv{}.example.org/a/{} msg=Connection of {user} from \
         {source} after {} ms fname={}.docx",
        rng.u32(..9),
        rng.u32(100..999),
        pick(rng, &["allowed", "blocked"]),
        rng.u32(1..10),
        1_795_507_200_000u64 + rng.u64(..86_400_000),
        rng.u32(1024..65_535),
        pick(rng, &["443", "80", "53", "22"]),
        pick(rng, &["TCP", "UDP"]),
        pick(rng, &["allowed", "blocked"]),
        rng.u32(..5000),
        rng.u32(..500),
        rng.u32(60..9_000_000),
        rng.u32(60..900_000),
        pick(rng, &["https", "dns", "ssh"]),
        rng.u32(10_000..99_999),
        rng.u32(..600),
        rng.u32(1..20),
        pick(rng, &["success", "failure"]),
        rng.u32(..500),
        hex(rng, 12),
        rng.u32(..9000),
        hex(rng, 8),
    )
}

/// Returns an event of Windows as flat JSON of about 1.85 KB, of which 43 fields are mapped.
pub(crate) fn windows(rng: &mut Rng) -> String {
    let program = pick(rng, PROGRAMS);
    let parent = pick(rng, PROGRAMS);
    let user = pick(rng, USERS);
    let number = rng.u32(1..20_000);
    let guid = format!(
        "{}-{}-{}-{}-{}",
        hex(rng, 8),
        hex(rng, 4),
        hex(rng, 4),
        hex(rng, 4),
        hex(rng, 12)
    );
    let second = rng.u32(10..60);
    let ms = rng.u32(100..1000);
    let hashes = format!(
        "SHA1={},MD5={},SHA256={},IMPHASH={}",
        hex(rng, 40),
        hex(rng, 32),
        hex(rng, 64),
        hex(rng, 32)
    )
    .to_uppercase();
    format!(
        r#"{{"EventTime":"2026-11-24 08:00:{second}","Hostname":"ws{}.example.org","Keywords":-9223372036854775808,"EventType":"INFO","SeverityValue":2,"Severity":"INFO","EventID":1,"SourceName":"Microsoft-Windows-Sysmon","ProviderGuid":"{{5770385F-C22A-43E0-BF4C-06F5698FFBD9}}","Version":5,"Task":1,"OpcodeValue":0,"Opcode":"Info","RecordNumber":{},"ExecutionProcessID":{},"ThreadID":{},"Channel":"Microsoft-Windows-Sysmon/Operational","Domain":"NT AUTHORITY","AccountName":"SYSTEM","UserID":"S-1-5-18","AccountType":"User","Category":"Process Create (rule: ProcessCreate)","RuleName":"rule-{}","UtcTime":"2026-11-24 08:00:{second}.{ms}","ProcessGuid":"{{{guid}}}","ProcessId":"{number}","Image":"C:\\Windows\\System32\\{program}","FileVersion":"10.0.18362.1 (WinBuild.160101.0800)","Description":"Program of the operating system","Product":"Microsoft\u00ae Windows\u00ae Operating System","Company":"Microsoft Corporation","OriginalFileName":"{program}","CommandLine":"\"C:\\Windows\\System32\\{program}\" -n {} -s {}","CurrentDirectory":"C:\\Users\\{user}\\Documents\\","User":"EXAMPLE\\{user}","LogonGuid":"{{{guid}}}","LogonId":"0x{}","TerminalSessionId":"1","IntegrityLevel":"Medium","Hashes":"{hashes}","ParentProcessGuid":"{{{guid}}}","ParentProcessId":"{}","ParentImage":"C:\\Windows\\{parent}","ParentCommandLine":"C:\\Windows\\{parent} -k netsvcs","EventReceivedTime":"2026-11-24 08:00:{second}","SourceModuleName":"eventlog","SourceModuleType":"im_msvistalog","ActivityID":"{{{guid}}}","Level":"4","@version":"1"}}"#,
        rng.u32(..5000),
        rng.u32(..9_000_000),
        rng.u32(..9000),
        rng.u32(..9000),
        rng.u32(..99),
        rng.u32(..99),
        hex(rng, 24),
        hex(rng, 6),
        rng.u32(1..20_000),
    )
}

/// Returns a line of an access log in the combined format.
pub(crate) fn access(rng: &mut Rng) -> String {
    format!(
        r#"{} - {} [24/Nov/2026:{:02}:{:02}:{:02} +0000] "GET /a/{}/page-{}.html?q={} HTTP/1.1" {} {} "https://example.org/{}" "Mozilla/5.0 (X11; Linux x86_64; rv:{}.0) Gecko/20100101 Firefox/{}.0""#,
        address(rng),
        pick(rng, &["-", "ann", "bob"]),
        rng.u32(..24),
        rng.u32(..60),
        rng.u32(..60),
        hex(rng, 6),
        rng.u32(..900),
        hex(rng, 8),
        pick(rng, &["200", "200", "304", "404", "500"]),
        rng.u32(..900_000),
        hex(rng, 6),
        rng.u32(80..140),
        rng.u32(80..140),
    )
}
