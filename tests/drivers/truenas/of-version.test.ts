import { expect, test } from "bun:test";
import { ApiError, errnos } from "../../../lib/drivers/truenas/api-error.ts";
import { ofVersion } from "../../../lib/drivers/truenas/zfs/queries.ts";
import { HttpError } from "../../../lib/io/dial.ts";

const refusal = new ApiError("pool.snapshot.clone", errnos.denied, "not a valid ZFS property");
const lost = new HttpError("nas", "lost", "the connection ended");

test.each([
  ["a refusal by another version may be repeated", 2600, refusal, { failure: "lost" }],
  ["a refusal by the same version stays", 2510, refusal, refusal],
  ["a lost request stays", 2600, lost, lost],
] as const)("%s", async (_, now, error, thrown) => {
  const api = { where: "nas", version: async () => ({ text: "TrueNAS", number: now }) };
  const work = () => Promise.reject(error);
  expect(await ofVersion(api, 2510, work, AbortSignal.timeout(5_000)).catch(found => found)).toMatchObject(thrown);
});
