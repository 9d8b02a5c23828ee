import { clientsIn, ExportCache, exportedIn, exportsStep, infoStep } from "../../lib/drivers/zfs/cli/nfs.ts";
import { localHost } from "../../lib/io/local-host.ts";
import type { Step } from "../../lib/io/script.ts";
import { pause } from "../waiting.ts";
import type { CaseHost, HostCase } from "./host-cases.ts";
import { usersStep } from "./zfs/nfsd.ts";

/** What csimux asks the NFS server of a host (lib/drivers/zfs/cli/nfs.ts), in the same words. */

const { signal } = new AbortController();

function serverOf({ runner, dataset, place }: CaseHost) {
  const host = localHost(runner);
  const name = `${dataset}/shared`;
  const run = async (step: Step) => (await host.script({ steps: [step] }, signal)).get(step.name)?.stdout ?? "";
  const users = () => run(usersStep(place(name), []));
  const zfs = async (...words: readonly string[]): Promise<string> => {
    const { exitCode, stderr } = await runner.run({ argv: ["zfs", ...words], timeoutMs: 120_000 }, signal);
    const said = stderr.replaceAll(place(name), "its folder").replaceAll(dataset, "here").trim().split("\n")[0] ?? "";
    return `${exitCode} ${said}`.trim();
  };
  return {
    name,
    zfs,
    exported: async () => `exported: ${exportedIn(await run(exportsStep)).has(place(name))}`,
    async users(): Promise<string> {
      const found = await users();
      const cached = found.split("\n").some(line => line.includes(`/nfsd.export/content:${place(name)}\t`));
      return `${clientsIn(found).length} clients, ${cached ? "cached" : "not cached"}`;
    },
    /** The fields of the first client, and what they say as far as it is the same everywhere. */
    async info(): Promise<string> {
      const [client = "none"] = clientsIn(await users());
      const lines = (await run(infoStep([client], []))).split("\n").filter(line => line.startsWith(`${client}/info:`));
      const fields = lines.map(line => line.slice(client.length + 6).split(/: (.*)/, 2));
      const said: Readonly<Record<string, RegExp>> = {
        address: /^"[0-9a-f.:]+:\d+"$/,
        name: /^"Linux NFSv4\.\d \S+"$/,
        status: /^confirmed$/,
        "seconds from last renew": /^\d+$/,
      };
      return fields
        .map(([key = "", value = ""]) => `${key} ${said[key]?.test(value) ? "as expected" : value}`)
        .sort()
        .join(", ");
    },
    flush: () => new ExportCache().of(host, []).flushed(signal),
  };
}

/** The answer of a destruction that is repeated while the server closes what its client had open, as drivers repeat it. */
async function destroyed(destroy: () => Promise<string>): Promise<string> {
  const until = performance.now() + 20_000;
  for (let answer = await destroy(); ; answer = await destroy()) {
    if (!answer.includes("busy") || performance.now() > until) return answer;
    await pause(500);
  }
}

export const nfsCases: Readonly<Record<string, HostCase>> = {
  "a file system is exported from its creation until its sharing is switched off": async host => {
    const { name, zfs, exported } = serverOf(host);
    const seen = [await zfs("create", "-o", "sharenfs=rw,insecure,no_root_squash", name), await exported()];
    seen.push(await zfs("share", name), await exported());
    seen.push(await zfs("set", "sharenfs=off", name), await exported());
    seen.push(await zfs("set", "sharenfs=on", name), await exported());
    seen.push(await zfs("unmount", name), await exported(), await zfs("share", name), await exported());
    seen.push(await zfs("destroy", name), await exported());
    return seen;
  },

  "a client that holds a file open is named, and keeps the file system; what was used stays in the cache":
    async host => {
      const { name, zfs, users, info, flush, exported } = serverOf(host);
      await zfs("create", "-o", "sharenfs=rw,insecure,no_root_squash", name);
      const seen = [await users()];
      const client = await host.nfsClient(name);
      seen.push(await users(), await info(), await zfs("destroy", name), await exported());
      await client.end();
      await flush();
      seen.push(await users(), await destroyed(() => zfs("destroy", name)));
      return seen;
    },
};
