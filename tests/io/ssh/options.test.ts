import { expect, test } from "bun:test";
import { answerTo } from "../../../lib/io/ssh/login-folder.ts";
import { knownHostsText, loginArgv, policyOf } from "../../../lib/io/ssh/options.ts";
import { refusal } from "../../../lib/io/ssh/refusal.ts";
import type { SshSettings } from "../../../lib/io/ssh/settings.ts";

const files = { key: "/private/key", knownHosts: "/private/known_hosts", log: "/private/log" };
const plain: SshSettings = {
  host: "nas",
  port: 22,
  username: "root",
  keepaliveInterval: 10_000,
  readyTimeout: 20_000,
  forceIPv4: false,
  forceIPv6: false,
  debug: false,
};
const argv = (change: Partial<SshSettings> = {}, key: string | undefined = files.key) =>
  loginArgv({ ...plain, ...change }, { ...files, key });

test("the configuration of the account is not read, and nothing is forwarded", () => {
  const words = argv();
  expect(words.slice(0, 4)).toEqual(["ssh", "-F", "none", "-T"]);
  expect(words.slice(-3)).toEqual(["--", "nas", "exec /bin/sh"]);
  for (const option of ["ClearAllForwardings=yes", "GlobalKnownHostsFile=none", "BatchMode=yes", "IdentitiesOnly=yes"])
    expect(words).toContain(option);
});

test.each<[string, Partial<SshSettings>, readonly string[]]>([
  ["durations are whole seconds, rounded up", { readyTimeout: 1_500 }, ["ConnectTimeout=2"]],
  ["keepalive is never off", { keepaliveInterval: 0 }, ["ServerAliveInterval=10", "ServerAliveCountMax=3"]],
  ["a password is asked for once", { password: "x" }, ["BatchMode=no", "NumberOfPasswordPrompts=1"]],
  ["an agent is used", { agent: "/run/a b%.sock" }, ['IdentityAgent="/run/a b%%.sock"']],
  ["the first key is remembered without any setting", {}, ["StrictHostKeyChecking=accept-new"]],
  ["a given key is the only one", { hostKey: "ssh-ed25519 AAAA" }, ["StrictHostKeyChecking=yes"]],
  [
    "a file of known hosts is used",
    { knownHosts: "/etc/k" },
    ['UserKnownHostsFile="/etc/k"', "StrictHostKeyChecking=yes"],
  ],
  [
    "no host key counts when told so",
    { hostKeyPolicy: "off" },
    ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null"],
  ],
  [
    "algorithms are replaced",
    { algorithms: { cipher: ["aes256-ctr", "aes128-ctr"] } },
    ["Ciphers=aes256-ctr,aes128-ctr"],
  ],
  ["algorithms are added", { algorithms: { kex: { append: ["x"] } } }, ["KexAlgorithms=+x"]],
  [
    "algorithms are preferred",
    { algorithms: { serverHostKey: { prepend: "ssh-rsa" } } },
    ["HostKeyAlgorithms=^ssh-rsa"],
  ],
  ["algorithms are removed", { algorithms: { hmac: { remove: ["x", "y"] } } }, ["MACs=-x,y"]],
  ["compression", { algorithms: { compress: ["zlib@openssh.com", "none"] } }, ["Compression=yes"]],
])("%s", (_, change, expected) => {
  const words = argv(change);
  for (const option of expected) expect(words[words.indexOf(option) - 1]).toBe("-o");
});

test.each([{ kex: ["a b"] }, { nonsense: ["x"] }, { kex: { append: ["x"], remove: ["y"] } }, { kex: {} }])(
  "algorithms that ssh does not accept are refused: %j",
  algorithms => expect(() => argv({ algorithms })).toThrow("algorithms."),
);

test("the argv contains no secret", () => {
  const words = argv({ password: "pass word", passphrase: "phrase", privateKey: "KEY TEXT" }).join("\0");
  expect(words).not.toMatch(/pass word|phrase|KEY TEXT/);
});

test("a host key is understood as ssh-keyscan prints it, with its comments and without the name", () => {
  const hostKey = "# nas:22 SSH-2.0\nnas ssh-ed25519 AAAAC3Nz\n[nas]:22 ecdsa-sha2-nistp256 AAAAE2Vj+/= root@nas";
  expect(knownHostsText({ ...plain, hostKey })).toBe(
    "csimux-host ssh-ed25519 AAAAC3Nz\ncsimux-host ecdsa-sha2-nistp256 AAAAE2Vj+/=\n",
  );
  expect(() => knownHostsText({ ...plain, hostKey: "SHA256:abc" })).toThrow("ssh-keyscan");
  expect(policyOf({ ...plain, hostKey, hostKeyPolicy: "accept-new" })).toBe("accept-new");
});

test("only questions for a password or passphrase are answered", () => {
  const settings = { ...plain, password: "word", passphrase: "phrase" };
  expect(answerTo("root@nas's password: ", settings)).toBe("word");
  expect(answerTo("(root@nas) Password: ", settings)).toBe("word");
  expect(answerTo("Enter passphrase for key '/dev/shm/password/key': ", settings)).toBe("phrase");
  expect(answerTo("Are you sure you want to continue connecting (yes/no/[fingerprint])? ", settings)).toBeUndefined();
  expect(answerTo("Verification code: ", settings)).toBeUndefined();
});

test("a refused login reports what to do and ssh's message, without secrets", () => {
  const messages = "@@@@@\ndebug1: x\r\nroot@nas: Permission denied (publickey,hunter2).\r\n";
  const { message } = refusal({ ...plain, password: "hunter2" }, messages, new Error("exit code 255"));
  expect(message).toContain("check username, key and password: root@nas: Permission denied (publickey,***).");
});
