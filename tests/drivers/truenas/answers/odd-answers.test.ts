import { expect, test } from "bun:test";
import type { CsiError } from "../../../../lib/core/errors.ts";
import type { Api } from "../../../../lib/drivers/truenas/api.ts";
import { ApiError, apiErrorMapping, errnos } from "../../../../lib/drivers/truenas/api-error.ts";
import { tableOf } from "../../../../lib/drivers/truenas/shares/share.ts";
import { ofVersion } from "../../../../lib/drivers/truenas/zfs/queries.ts";
import { ZfsApi } from "../../../../lib/drivers/truenas/zfs/zfs-api.ts";
import type { Zfs } from "../../../../lib/drivers/zfs/zfs.ts";
import { HttpError } from "../../../../lib/io/dial.ts";
import { callWith } from "../../../contract/rig.ts";

// Answers that are JSON, but not of the API: from a server, or from something before it. They must not be understood as "does not exist".

const call = callWith();
const { signal } = call;
const look = { names: ["tank", "tank/k/v/a"], properties: ["type", "guid"] };

const questions: Readonly<Record<string, (zfs: Zfs, api: Api) => Promise<unknown>>> = {
  read: zfs => zfs.read(look, signal),
  below: zfs => zfs.below("tank/k/v", ["filesystem", "snapshot"], ["type"], 1, signal),
  family: zfs => zfs.family("tank/k/v/a", look, signal),
  snapshotsNamed: zfs => zfs.snapshotsNamed({ name: "s", parent: "tank/k/v", copies: undefined }, look, signal),
  pools: zfs => zfs.pools(["tank"], signal),
  copy: zfs => zfs.copy({ from: "tank/k/v/a@s", to: "tank/k/v/b", values: {} }, signal),
  shares: (_, api) => tableOf({ api, connection: "c", driver: "truenas-nfs" } as never, "sharing.nfs", call).find(),
};

test.each(
  Object.keys(questions).flatMap(question =>
    [2404, 2504, 2510, 2600].flatMap(number =>
      [null, true, "x", 7, {}, [null], ["x"]].map(answer => [question, number, answer] as const),
    ),
  ),
)("%s on version %p is refused when %j is answered", async (question, number, answer) => {
  const api: Api = {
    where: "nas",
    version: async () => ({ number, text: String(number) }) as never,
    call: async () => answer,
    job: async () => answer,
  };
  const error = await questions[question]?.(new ZfsApi(api, "GENERIC"), api).then(
    () => "it was accepted",
    (reason: unknown) => reason,
  );
  expect(apiErrorMapping(error)?.code).toBe("failed-precondition");
});

const refusal = new ApiError("pool.snapshot.clone", errnos.denied, "not a valid ZFS property");
const lost = new HttpError("nas", "lost", "the connection ended");

test.each([
  ["a refusal by another version may be repeated", 2600, refusal, { failure: "lost" }],
  ["a refusal by the same version stays", 2510, refusal, refusal],
  ["a lost request stays", 2600, lost, lost],
] as const)("%s", async (_, now, error, thrown) => {
  const api = { where: "nas", version: async () => ({ text: "TrueNAS", number: now }) } as unknown as Api;
  const system = { api, version: 2510, signal: AbortSignal.timeout(5_000) };
  const work = () => Promise.reject(error);
  expect(await ofVersion(system, work).catch(found => found)).toMatchObject(thrown);
});

test("a row counts as deleted only if it, and not one that it needs, does not exist", async () => {
  const missing = new ApiError("iscsi.targetextent.delete", errnos.missing, "does not exist");
  const deletion = (rows: readonly object[]) => {
    const answer = async (method: string) => (method === "iscsi.target.query" ? rows : Promise.reject(missing));
    const api = { where: "nas", call: answer } as unknown as Api;
    return tableOf({ api, connection: "c", driver: "truenas-iscsi" } as never, "iscsi.target", call).delete(7, false);
  };
  await deletion([]);
  expect(await deletion([{ id: 7 }]).catch((error: CsiError) => error.code)).toBe("aborted");
});
