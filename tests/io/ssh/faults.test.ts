import { afterEach, describe, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { readdir, readFile, rename, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import type { Step } from "../../../lib/io/script.ts";
import type { SshHosts } from "../../../lib/io/ssh/hosts.ts";
import { ask, calm, failed, hosts, until } from "./rig.ts";
import { freePort, keyPair, type Sshd, type SshdOptions, signal, startSshd } from "./sshd.ts";

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function world(options?: SshdOptions): Promise<{ sshd: Sshd; hosts: SshHosts; warnings: readonly string[] }> {
  const sshd = await startSshd(options);
  const opened = hosts();
  ends.push(sshd.stop, () => opened.hosts.close());
  return { sshd, ...opened };
}

const sh = (text: string, ...words: string[]) => ["sh", "-c", text, "sh", ...words] as const;

describe("a connection that is lost", () => {
  test("in the middle of a script fails the script, and the next script gets a new connection", async () => {
    const { sshd, hosts } = await world();
    const { value: host } = hosts.lease(sshd.settings());
    const path = join(sshd.folder, "second");
    const script = {
      steps: [
        { name: "first", argv: sh('echo begun > "$1.begun"; sleep 60', path) },
        { name: "second", argv: ["touch", path] },
      ],
    } as const;
    const work = failed(host.script(script, calm));
    await until("the script has begun", () => Bun.file(`${path}.begun`).exists());
    for (const pid of sshd.sessions()) if (nameOf(pid).startsWith("sshd")) signal(pid, "SIGKILL");
    expect((await work).failure).toBe("lost");
    expect(await ask(host, ["echo", "again"])).toBe("again\n");
  });

  test("starts no further step on the host", async () => {
    const { sshd, hosts } = await world();
    const { value: host } = hosts.lease(sshd.settings());
    const path = join(sshd.folder, "second");
    const call = new AbortController();
    const first = sh('echo > "$1.begun"; while [ ! -e "$1.go" ]; do sleep 0.02; done', path);
    const steps = [
      { name: "first", argv: first },
      { name: "second", argv: ["touch", path] },
    ] as const;
    const work = failed(host.script({ steps }, call.signal));
    await until("the script has begun", () => Bun.file(`${path}.begun`).exists());
    const shells = sshd.sessions();
    call.abort();
    expect((await work).failure).toBe("cancelled");
    await until("sshd has seen it", () => !shells.some(pid => nameOf(pid).startsWith("sshd")));
    await writeFile(`${path}.go`, "");
    await until("the shell has ended", () => !shells.some(pid => nameOf(pid) !== ""));
    expect(await Bun.file(path).exists()).toBe(false);
  });

  test("while idle is not noticed by the next script", async () => {
    const { sshd, hosts } = await world();
    const { value: host } = hosts.lease(sshd.settings());
    const shell = await ask(host, sh("echo $SSH_CLIENT"));
    for (const pid of sshd.sessions()) signal(pid, "SIGKILL");
    await until("the shell has gone", () => sshd.sessions().length === 0);
    await until("a new one answers", async () => {
      const other = await ask(host, sh("echo $SSH_CLIENT")).catch(() => shell);
      return other !== shell;
    });
  });

  test("to a frozen host ends with the call, and no step starts when the host resumes", async () => {
    const { sshd, hosts } = await world();
    const { value: host } = hosts.lease(sshd.settings({ readyTimeout: 5_000 }));
    await ask(host, ["true"]);
    const all = [sshd.pid, ...sshd.sessions()];
    for (const pid of all) signal(pid, "SIGSTOP");
    const path = join(sshd.folder, "late");
    const steps = [{ name: "late", argv: ["touch", path] }] as const;
    expect((await failed(host.script({ steps, timeoutMs: 1_000 }, calm))).failure).toBe("timeout");
    const begun = Date.now();
    expect((await failed(ask(host, ["true"]))).failure).toBe("unreachable");
    expect(Date.now() - begun).toBeLessThan(15_000);
    // Seconds of the host's clock are whole ones, at both ends.
    await until("the limit is over by the host's clock", () => Date.now() - begun > 3_000);
    for (const pid of all) signal(pid, "SIGCONT");
    await until("it answers again", () =>
      ask(host, ["true"]).then(
        () => true,
        () => false,
      ),
    );
    await until("the old shell is gone", () => all.slice(1).every(pid => nameOf(pid) === ""));
    expect(await Bun.file(path).exists()).toBe(false);
  });

  test("to a silent network is closed by keepalive", async () => {
    const { sshd, hosts } = await world();
    const { value: host } = hosts.lease(sshd.settings({ keepaliveInterval: 1_000, keepaliveCountMax: 1 }));
    await ask(host, ["true"]);
    const work = failed(ask(host, ["sleep", "60"]));
    await until("it runs", () => sshd.sessions().some(pid => nameOf(pid) === "sleep"));
    for (const pid of sshd.sessions()) signal(pid, "SIGSTOP");
    expect((await work).failure).toBe("lost");
  });
});

describe("a login", () => {
  test("to a closed port fails at once, then without an attempt until the pause is over", async () => {
    const { hosts, warnings, sshd } = await world();
    const { value: host } = hosts.lease(sshd.settings({ port: await freePort() }));
    const first = await failed(ask(host, ["true"]));
    expect(first.failure).toBe("unreachable");
    expect(first.message).toContain("connection refused at this port");
    await Promise.all(Array.from({ length: 50 }, () => failed(ask(host, ["true"]))));
    expect(warnings.length).toBeLessThan(5);
  });

  test("that fails while another shell is busy is repeated after the pause, and not when that shell is free", async () => {
    const { hosts, sshd, warnings } = await world();
    const { value: host } = hosts.lease(sshd.settings());
    const [gate, keys] = [join(sshd.folder, "gate"), join(sshd.folder, "authorized_keys")];
    const long = (argv: Step["argv"]) => host.script({ steps: [{ name: "only", argv }], long: true }, calm);
    const busy = long(sh('echo > "$1.begun"; while [ ! -e "$1" ]; do sleep 0.02; done', gate));
    await until("the first script has begun", () => Bun.file(`${gate}.begun`).exists());
    await rename(keys, `${keys}.away`);
    const second = long(["echo", "here"]);
    await until("a login was refused", () => warnings.length > 0);
    await rename(`${keys}.away`, keys);
    expect((await second).get("only")?.stdout).toBe("here\n");
    await writeFile(gate, "");
    await busy;
  });

  test("into a black hole ends at its limit", async () => {
    const { hosts, sshd } = await world();
    const hole = createServer(() => {});
    await new Promise<void>(resolve => hole.listen(0, "127.0.0.1", resolve));
    const address = hole.address();
    const port = typeof address === "object" && address ? address.port : 0;
    const { value: host } = hosts.lease(sshd.settings({ port, readyTimeout: 1_000 }));
    const begun = Date.now();
    expect((await failed(ask(host, ["true"]))).failure).toBe("unreachable");
    expect(Date.now() - begun).toBeLessThan(10_000);
    hole.close();
  });

  test("to a host with another key than the expected one is refused", async () => {
    const { hosts, sshd } = await world();
    const [, other] = await keyPair(sshd.folder, "other");
    for (const change of [{ hostKey: other }, { hostKey: undefined, hostKeyPolicy: "strict" }] as const) {
      const error = await failed(ask(hosts.lease(sshd.settings(change)).value, ["true"]));
      expect(error.failure).toBe("unreachable");
      expect(error.message).toContain("its host key is not the expected one");
    }
  });

  test("accepts a host key of a known_hosts file, the first one with a warning, and any one only if configured", async () => {
    const { hosts, sshd, warnings } = await world();
    const known = join(sshd.folder, "known %h hosts");
    await writeFile(known, `[127.0.0.1]:${sshd.port} ${sshd.hostKey}\n`);
    expect(await ask(hosts.lease(sshd.settings({ hostKey: undefined, knownHosts: known })).value, ["echo"])).toBe("\n");
    expect(warnings).toEqual([]);
    expect(await ask(hosts.lease(sshd.settings({ hostKey: undefined })).value, ["echo"])).toBe("\n");
    expect(warnings.at(-1)).toContain("the first host key received is trusted");
    const any = sshd.settings({ hostKey: undefined, hostKeyPolicy: "off" });
    expect(await ask(hosts.lease(any).value, ["echo"])).toBe("\n");
    expect(warnings.at(-1)).toContain("accepting any host key");
  });

  test("trusts the first host key beyond a restart, and no other one afterwards", async () => {
    const { sshd } = await world();
    const known = join(sshd.folder, "state", "known-hosts");
    const login = async (change: object): Promise<string> => {
      const opened = hosts(known);
      const work = ask(opened.hosts.lease(sshd.settings({ hostKey: undefined, ...change })).value, ["echo", "in"]);
      return await work.catch(error => String(error)).finally(() => opened.hosts.close());
    };
    expect(await login({})).toBe("in\n");
    const [name = ""] = await readdir(known);
    expect(await readFile(join(known, name), "utf8")).toContain(sshd.hostKey.split(" ")[1] ?? "");
    const [, other = ""] = await keyPair(sshd.folder, "other");
    await writeFile(join(known, name), `csimux-host ${other}\n`);
    expect(await login({})).toContain("its host key is not the expected one");
    expect(await login({ hostKey: sshd.hostKey })).toBe("in\n");
  });

  test("with a key that the host does not know is refused", async () => {
    const { hosts, sshd } = await world();
    const [privateKey] = await keyPair(sshd.folder, "stranger");
    const error = await failed(ask(hosts.lease(sshd.settings({ privateKey })).value, ["true"]));
    expect(error.message).toContain("it refuses the login");
    expect(error.isLoginRefused).toBe(true);
    expect(error.message).not.toContain("PRIVATE");
  });

  test("unlocks a key with its passphrase, and with no other", async () => {
    const { hosts, sshd } = await world();
    const [privateKey, line] = await keyPair(sshd.folder, "locked", "open sesame");
    await writeFile(join(sshd.folder, "authorized_keys"), `${line}\n`);
    const right = hosts.lease(sshd.settings({ privateKey, passphrase: "open sesame" })).value;
    expect(await ask(right, ["echo", "in"])).toBe("in\n");
    const wrong = hosts.lease(sshd.settings({ privateKey, passphrase: "wrong" })).value;
    const error = await failed(ask(wrong, ["true"]));
    expect(error.failure).toBe("unreachable");
    expect(error.message).not.toContain("wrong");
  });

  test("sends a password, and fails with a wrong one", async () => {
    const { hosts, sshd } = await world({ password: "it's $ecret" });
    const right = hosts.lease(sshd.settings({ privateKey: undefined, password: "it's $ecret" })).value;
    expect(await ask(right, ["echo", "in"])).toBe("in\n");
    const wrong = hosts.lease(sshd.settings({ privateKey: undefined, password: "other" })).value;
    expect((await failed(ask(wrong, ["true"]))).message).toContain("it refuses the login");
  });

  test("leaves neither key nor folder nor process behind", async () => {
    const { hosts, sshd } = await world();
    const before = new Set(await readdir("/dev/shm"));
    const lease = hosts.lease(sshd.settings());
    await ask(lease.value, ["true"]);
    const made = (await readdir("/dev/shm")).filter(name => name.startsWith("csimux-") && !before.has(name));
    const files = (await Promise.all(made.map(name => readdir(join("/dev/shm", name)).catch(() => [])))).flat();
    expect(files).not.toContain("key");
    await lease.release();
    await hosts.close();
    await until("the shells have ended", () => sshd.sessions().length === 0);
    expect((await failed(ask(lease.value, ["true"]))).failure).toBe("unreachable");
  });

  test("is made once for all connections to a host, and again for other settings", async () => {
    const { hosts, sshd } = await world();
    const connection = sh("echo $SSH_CLIENT");
    const one = await ask(hosts.lease(sshd.settings()).value, connection);
    expect(await ask(hosts.lease(sshd.settings()).value, connection)).toBe(one);
    expect(await ask(hosts.lease(sshd.settings({ keepaliveCountMax: 9 })).value, connection)).not.toBe(one);
  });

  test("is made at most four times at once", async () => {
    const { hosts, sshd } = await world();
    const { value: host } = hosts.lease(sshd.settings());
    const shells = await Promise.all(Array.from({ length: 60 }, () => ask(host, sh("sleep 0.05; echo $SSH_CLIENT"))));
    expect(new Set(shells).size).toBeLessThanOrEqual(4);
    expect(new Set(shells).size).toBeGreaterThan(1);
  });
});

/** The name of a process that lives; empty for one that does not. */
function nameOf(pid: number): string {
  try {
    const [name = "", state = ""] = execFileSync("ps", ["-o", "comm=,stat=", "-p", String(pid)], { encoding: "utf8" })
      .trim()
      .split(/\s+(?=\S+$)/);
    return state.startsWith("Z") ? "" : name;
  } catch {
    return "";
  }
}
