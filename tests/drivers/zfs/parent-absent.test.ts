import { expect, test } from "bun:test";
import { zfsMeaning } from "../../../lib/drivers/zfs/meanings.ts";
import { ZfsError } from "../../../lib/drivers/zfs/zfs.ts";

test("a parent dataset that cannot be created is not said to be in use", () => {
  const meaning = zfsMeaning(new ZfsError("parent-absent", "the parent dataset nopool/v cannot be created"));
  expect(meaning).toEqual({
    code: "aborted",
    text: "the parent dataset nopool/v cannot be created; see that its pool exists and is imported, then repeat the call",
  });
});
