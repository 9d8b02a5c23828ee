import { expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { join } from "node:path";

// How a saved configuration is changed (lib/drivers/zfs/targets/host/saved.py): one element of a list, and no other byte.

const folder = join(import.meta.dir, "../../../../lib/drivers/zfs/targets/host");
const program = `import json, sys
for name in ("common.py", "saved.py"):
    exec(open(sys.argv[1] + "/" + name).read())
ask = json.load(sys.stdin)
def change(all_):
    rest = [each for each in all_ if each.get("name") != ask["name"]]
    return rest if ask["new"] is None else put(all_, ask["new"], lambda each: each.get("name") == ask["name"])
sys.stdout.write(with_lists(ask["body"], {ask["list"]: change}))
`;

/** The text with the element of a name replaced, added or, without a new one, removed. */
function changed(body: string, name: string, added: object | null, list = "targets"): string {
  const input = JSON.stringify({ body, name, new: added, list });
  const { stdout, stderr, status } = spawnSync("/usr/bin/python3", ["-I", "-S", "-c", program, folder], {
    input,
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(stderr);
  return stdout;
}

/** JSON as Python's json.dumps(sort_keys=True, indent=2) writes it, for objects whose keys are in order. */
const pretty = (value: object): string => `${JSON.stringify(value, null, 2)}\n`;
const [a, b, c] = ["a", "b", "c"].map(name => ({ luns: [{ index: 0 }], name }));
const whole = (...targets: readonly (object | undefined)[]) => pretty({ storage_objects: [], targets });

test("an element is added, replaced and removed as the tool would write the whole", () => {
  expect(changed(whole(), "a", a ?? null)).toBe(whole(a));
  expect(changed(whole(a), "b", b ?? null)).toBe(whole(a, b));
  expect(changed(whole(a, b, c), "b", { luns: [], name: "b" })).toBe(whole(a, { luns: [], name: "b" }, c));
  expect(changed(whole(a, b, c), "b", null)).toBe(whole(a, c));
  expect(changed(whole(a), "a", null)).toBe(whole());
  expect(changed(pretty({ targets: [a] }), "b", b ?? null, "storage_objects")).toBe(
    pretty({ storage_objects: [b], targets: [a] }),
  );
});

test("what others have written keeps every byte, whatever it is and however it is written", () => {
  const odd = String.raw`{"big": 12345678901234567890123, "float": 1.10, "name": "x", "é\u00e9": "],}\"", "twice": 1, "twice": 2}`;
  const body = `\n{ "storage_objects":[],"other" : {"targets": [1]} ,\n"targets" : [\n${odd} , {"name":"b"}]\n, "tail": null}\n\n`;
  const added = changed(body, "a", { name: "a" });
  expect(added).toContain(odd);
  expect(JSON.parse(added)).toEqual({ ...JSON.parse(body), targets: [...JSON.parse(body).targets, { name: "a" }] });
  expect(added.replace(/"targets" : \[[\s\S]*?\]\n, "tail"/, "")).toBe(
    body.replace(/"targets" : \[[\s\S]*?\]\n, "tail"/, ""),
  );
  expect(changed(body, "absent", null)).toBe(body);
});
