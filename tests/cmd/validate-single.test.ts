import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { validate } from "../../cmd/validate/validate.ts";

const folder = mkdtempSync(join(tmpdir(), "csimux-validate-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function validated(text: string): Promise<string> {
  const out: string[] = [];
  const config = join(folder, "main.yaml");
  writeFileSync(config, text);
  const host = { out: (each: string) => void out.push(each), err: () => {}, stdin: async () => "", env: {} };
  const options = { inputs: [], config, name: "", format: "text" } as const;
  const code = await validate(options, { ...host, hostname: "here", colour: false, pause: async () => {} });
  return `${code}\n${out.join("")}`;
}

const truenas = (connection: string): string =>
  `driver: freenas-api-nfs\nhttpConnection: { host: nas.lan, ${connection} }\n` +
  "zfs: { datasetParentName: tank/v, detachedSnapshotsDatasetParentName: tank/s, datasetEnableQuotas: true }\nnfs: { shareHost: nas.lan, shareAllowedNetworks: [10.0.0.0/24] }\n";

test("a single driver is served unchanged only if csimux refuses nothing in its file, and warnings are named only if there are some", async () => {
  const calm = await validated(truenas("protocol: https, port: 443, username: csi, apiKey: 1-abc"));
  expect(calm).toStartWith("0\nno problems");
  expect(calm).toContain("serves it unchanged");
  expect(calm).not.toContain("[ignored-key]");
  const open = await validated(
    truenas("protocol: https, port: 443, username: csi, apiKey: 1-abc").replace(", datasetEnableQuotas: true", ""),
  );
  expect(open).toContain("[size-not-enforced]");
  expect(open).not.toContain("[ignored-key]");
  const warned = await validated(truenas("protocol: https, port: 443, username: csi, apiKey: 1-abc, password: abcd"));
  expect(warned).toStartWith("0\n");
  expect(warned).toContain("the warnings [ignored-key] above name keys that have no effect");
  const refused = await validated(truenas("protocol: http, port: 80, username: csi, apiKey: 1-abc"));
  expect(refused).toStartWith("1\n");
  expect(refused).toContain("never sent unencrypted");
  expect(refused).not.toContain("serves it unchanged");
});
