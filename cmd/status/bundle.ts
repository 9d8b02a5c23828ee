import { open, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { unknownFolder } from "../../lib/config/proxy.ts";
import { errnoOf, messageOf } from "../../lib/core/errors.ts";
import { isMapping } from "../../lib/core/mapping.ts";
import { masked } from "../../lib/core/secrets.ts";
import { readMain } from "../../lib/daemon/main-file.ts";
import { modules } from "../../lib/drivers/index.ts";
import { onlyKey } from "../../lib/lint/excerpt.ts";
import { gather } from "../../lib/lint/gather.ts";
import type { Input } from "../../lib/lint/input.ts";
import { maskedText } from "../../lib/lint/masked-text.ts";
import type { RunningDetails, Status } from "../../lib/observe/status.ts";
import { type Host, valueResolver } from "../host.ts";
import { version } from "../version.ts";

/** A part of a bug report: a title and its text. */
interface Section {
  readonly title: string;
  readonly text: string;
}

/** The time limit for metrics, in milliseconds; generating them needs no request to any storage system. */
const metricsMs = 5_000;

/** The contents of a bug report as one text for people, without the secrets in the files, wherever these occur. */
export async function bundleText(status: Status, details: RunningDetails, host: Host): Promise<string> {
  const { sections: files, secrets } = await configuration(details, host);
  const { log, metrics, state } = details;
  const sections: readonly Section[] = [
    { title: "version", text: `csimux ${status.version} (${status.commit}), queried by csimux ${version}` },
    { title: "status", text: JSON.stringify(status, undefined, 2) },
    ...files,
    { title: `the last ${log.length} lines of the log`, text: log.join("\n") },
    { title: "metrics", text: metrics === undefined ? "not served (--metrics-address)" : await metricsText(metrics) },
    { title: "mounts of volumes (mountinfo)", text: await mounts(state) },
    ...(await records(state)),
  ];
  const text = sections.map(each => `===== ${each.title} =====\n${each.text.trimEnd()}\n`).join("\n");
  return masked(text, secrets);
}

/** The main file and the connection files, masked, and their secrets. */
async function configuration({ config }: RunningDetails, host: Host) {
  const resolver = valueResolver(host.env);
  const main = await textOr(config);
  const inputs: Input[] = [{ file: config, text: main.text, role: "main" }];
  const missing: Section[] = main.fault ? [{ title: config, text: main.fault }] : [];
  const { partial } = await readMain(config, main.text, resolver);
  const folder = partial?.configFolder;
  if (folder && folder !== unknownFolder) {
    const names = await readdir(folder).catch((error: unknown) => {
      missing.push({ title: folder, text: `cannot be read (${errnoOf(error) ?? "unknown reason"}); nodes have none` });
      return [];
    });
    for (const name of names.filter(each => /\.ya?ml$/.test(each) && !each.startsWith(".")).sort()) {
      const { text, fault } = await textOr(join(folder, name));
      if (fault) missing.push({ title: join(folder, name), text: fault });
      else inputs.push({ file: join(folder, name), text, role: "connection" });
    }
  }
  const settings = { modules, resolver };
  const gathered = gather(inputs, settings);
  const read = gathered
    .flatMap(({ input: { main: own, connections } }) => [...(own ? [own] : []), ...connections])
    .map(each => ({ file: each.document.file, ...maskedText(each, modules) }));
  // The main file of a single driver is also a connection, whose schema knows the secrets better; it comes later.
  const shown = new Map([
    ...gathered.flatMap(({ documents }) =>
      documents.map(({ file, text }) => [file, text.split("\n").map(onlyKey).join("\n")] as const),
    ),
    ...read.map(({ file, text }) => [file, text] as const),
  ]);
  const values = read.flatMap(({ secrets }) => secrets);
  const fromEnvironment = values.flatMap(value =>
    [...value.matchAll(/\$\{env:(\w+)\}/g)].flatMap(([, name = ""]) => host.env[name] || []),
  );
  const sections = [...shown].map(([title, text]) => ({ title, text }));
  return { sections: [...sections, ...missing], secrets: [...values, ...fromEnvironment] };
}

async function textOr(file: string): Promise<{ readonly text: string; readonly fault?: string }> {
  try {
    return { text: await readFile(file, "utf8") };
  } catch (error) {
    return { text: "", fault: `cannot be read (${errnoOf(error) ?? "unknown reason"})` };
  }
}

async function metricsText({ host, port }: { readonly host: string; readonly port: number }): Promise<string> {
  const at = `http://${host === "" || host === "0.0.0.0" || host === "[::]" ? "127.0.0.1" : host}:${port}/metrics`;
  try {
    return await (await fetch(at, { signal: AbortSignal.timeout(metricsMs) })).text();
  } catch (error) {
    return `${at} does not answer: ${messageOf(error)}`;
  }
}

/** The mounts of CSI volumes and of csimux. */
async function mounts(state: string): Promise<string> {
  const { text, fault } = await textOr("/proc/self/mountinfo");
  const ours = text.split("\n").filter(line => /kubernetes\.io[~/]csi|\/csimux\//.test(line) || line.includes(state));
  return fault ?? (ours.length > 0 ? ours.map(withoutLogins).join("\n") : "none");
}

/** The records of the volumes staged here. */
async function records(state: string): Promise<readonly Section[]> {
  const folder = join(state, "volumes");
  const files = (await readdir(folder).catch(() => [])).filter(name => !name.endsWith(".new")).sort();
  if (files.length === 0) return [{ title: `records of staged volumes in ${folder}`, text: "none" }];
  return Promise.all(
    files.map(async name => {
      const { text, fault } = await textOr(join(folder, name));
      return { title: join(folder, name), text: fault ?? recordText(text) };
    }),
  );
}

function recordText(text: string): string {
  try {
    return JSON.stringify(harmless(JSON.parse(text), []), undefined, 2);
  } catch {
    return `${text.length} characters that are not JSON`;
  }
}

const hidden = "***";

/** Keys of a volume's context that only locate it. */
const plainContext =
  /^(?:connection|node_attach_driver|provisioner_driver\w*|path|share|server|portals?|iqn|lun|interface|fs_type|nqn|nsid|transports?|address|zpool|dataset)$/;

/** Words in names of secret keys. */
const secretName = /pass|secret|token|api_?key|private_?key|credential|mutual|^user$|^key$/i;

/** Removes possible secrets: contexts come from classes, whose authors may have added anything. */
function harmless(value: unknown, path: readonly string[]): unknown {
  if (Array.isArray(value)) return value.map(item => harmless(item, path));
  if (isMapping(value))
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, harmless(inner, [...path, key])]));
  if (typeof value !== "string") return value;
  const key = path.at(-1) ?? "";
  if (path.includes("context") && !plainContext.test(key)) return hidden;
  return secretName.test(key) ? hidden : withoutLogins(value);
}

/** Masks logins in mount options. */
const withoutLogins = (text: string): string =>
  text.replace(/((?:pass|password\d?|secret\w*|token|user(?:name)?|cred\w*)=)[^,\s"]*/gi, `$1${hidden}`);

/** Writes a new file that only its owner can read. Rejects with an errno error, also if the file exists. */
export async function writeBundle(file: string, text: string): Promise<void> {
  const handle = await open(file, "wx", 0o600);
  await handle.writeFile(text).finally(() => handle.close());
}
