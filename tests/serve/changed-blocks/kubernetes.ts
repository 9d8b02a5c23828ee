import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { closeSync, existsSync, openSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { built } from "../../../scripts/cluster/place.ts";
import { type Spawned, spawned } from "../../../scripts/spawned.ts";
import { freePort } from "../../io/ssh/sshd.ts";
import { pause } from "../../waiting.ts";

const program = (name: string): string => join(built.programs, name);

/** Whether these programs of the test cluster are there. */
export const hasPrograms = (names: readonly string[]): boolean => names.every(name => existsSync(program(name)));

/** An API server with its store on loopback, without nodes: what its objects ask for does not happen. */
export class Kubernetes {
  readonly folder: string;
  readonly #port: number;
  readonly #children: ChildProcess[] = [];

  private constructor(folder: string, port: number) {
    this.folder = folder;
    this.#port = port;
  }

  static async start(): Promise<Kubernetes> {
    const folder = await mkdtemp(join(tmpdir(), "csimux-api-"));
    const [port, store, peers] = [await freePort(), await freePort(), await freePort()];
    const api = new Kubernetes(folder, port);
    const key = join(folder, "accounts.key");
    execFileSync("openssl", ["genrsa", "-out", key, "2048"], { stdio: "ignore" });
    await writeFile(join(folder, "tokens.csv"), 'the-admin,admin,admin,"system:masters"\n');
    const url = `http://127.0.0.1:${store}`;
    api.run("etcd", [
      ...[program("etcd"), "--data-dir", join(folder, "etcd"), "--unsafe-no-fsync"],
      ...[`--listen-client-urls=${url}`, `--advertise-client-urls=${url}`],
      `--listen-peer-urls=http://127.0.0.1:${peers}`,
    ]);
    // The API server ends if its store does not answer in time.
    const isHealthy = () =>
      fetch(`${url}/health`).then(
        ({ ok }) => ok,
        () => false,
      );
    await api.until("the store", isHealthy);
    // The flags of scripts/cluster/machine/init.sh.
    api.run("kube-apiserver", [
      ...[program("kube-apiserver"), `--etcd-servers=${url}`, "--bind-address=127.0.0.1", `--secure-port=${port}`],
      ...[`--cert-dir=${join(folder, "pki")}`, `--token-auth-file=${join(folder, "tokens.csv")}`],
      ...["--authorization-mode=RBAC", "--allow-privileged", "--endpoint-reconciler-type=none", "--profiling=false"],
      "--service-account-issuer=https://kubernetes.default.svc",
      ...[`--service-account-key-file=${key}`, `--service-account-signing-key-file=${key}`],
    ]);
    await api.login("admin", "the-admin");
    await api.until("the API server", async () => (await api.kubectl("get", "--raw", "/readyz")).code === 0);
    return api;
  }

  /** Starts a program, whose output is kept; it ends with the server. */
  run(name: string, [path, ...args]: readonly [string, ...string[]] | string[]): void {
    const log = openSync(join(this.folder, `${name}.log`), "a");
    const env = { ...process.env, NO_PROXY: "*" };
    this.#children.push(spawn(path ?? "", args, { stdio: ["ignore", log, log], env }));
    closeSync(log);
  }

  log(name: string): Promise<string> {
    return readFile(join(this.folder, `${name}.log`), "utf8");
  }

  /** The kubeconfig of an account. */
  kubeconfig(name: string): string {
    return join(this.folder, `${name}.kubeconfig`);
  }

  /** Writes the kubeconfig of an account, which has this token. */
  async login(name: string, token: string): Promise<string> {
    const file = this.kubeconfig(name);
    const cluster = { server: `https://127.0.0.1:${this.#port}`, "insecure-skip-tls-verify": true };
    const config = {
      ...{ apiVersion: "v1", kind: "Config", "current-context": "here" },
      clusters: [{ name: "here", cluster }],
      users: [{ name: "user", user: { token } }],
      contexts: [{ name: "here", context: { cluster: "here", user: "user" } }],
    };
    await writeFile(file, JSON.stringify(config), { mode: 0o600 });
    return file;
  }

  /** Writes the kubeconfig of a service account. */
  async account(namespace: string, name: string): Promise<string> {
    return this.login(name, (await this.ok("-n", namespace, "create", "token", name)).trim());
  }

  /** Runs kubectl as the administrator. */
  kubectl(...args: readonly string[]): Promise<Spawned> {
    const cache = `--cache-dir=${join(this.folder, "cache")}`;
    return spawned([program("kubectl"), `--kubeconfig=${this.kubeconfig("admin")}`, cache, ...args]);
  }

  /** Runs kubectl as the administrator, and throws what it says if it fails. */
  async ok(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await this.kubectl(...args);
    if (code !== 0) throw new Error(`kubectl ${args.join(" ")}: ${stderr}`);
    return stdout;
  }

  async apply(...objects: readonly object[]): Promise<void> {
    const file = join(this.folder, "objects.json");
    await writeFile(file, objects.map(each => JSON.stringify(each)).join("\n---\n"));
    await this.ok("apply", "--server-side", "-f", file);
  }

  async until(what: string, look: () => Promise<boolean>): Promise<void> {
    const end = Date.now() + 120_000;
    while (!(await look())) {
      const gone = this.#children.find(({ exitCode }) => exitCode !== null);
      if (gone)
        throw new Error(`${gone.spawnfile} has ended:\n${(await this.log(basename(gone.spawnfile))).slice(-2000)}`);
      if (Date.now() > end) throw new Error(`no ${what}`);
      await pause(100);
    }
  }

  async end(): Promise<void> {
    for (const child of this.#children) {
      const ended = new Promise(resolve => child.once("exit", resolve));
      if (child.exitCode === null && child.signalCode === null && child.kill("SIGKILL")) await ended;
    }
    await rm(this.folder, { recursive: true, force: true });
  }
}
