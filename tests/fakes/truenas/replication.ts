import * as v from "valibot";
import { CallError } from "./failure.ts";
import { flag, modelled, or, text } from "./models.ts";
import type { Nas } from "./state.ts";
import { existing, made } from "./zfs/datasets.ts";
import { taken } from "./zfs/snapshots.ts";

/**
 * replication.run_onetime: a copy of one snapshot into a new dataset (plugins/replication.py and zettarepl.py of TS-24.10.2.4 and
 * TS-25.10.6). assumed: what a copy says that finds no snapshot or finds its target; its target is there from the start, empty; the copy
 * takes none of the source's user properties.
 */

const model = v.looseObject({
  direction: v.picklist(["PUSH", "PULL"]),
  transport: v.picklist(["SSH", "SSH+NETCAT", "LOCAL"]),
  source_datasets: v.pipe(v.array(text), v.minLength(1)),
  target_dataset: text,
  recursive: flag,
  name_regex: v.optional(v.nullable(text)),
  retention_policy: v.picklist(["SOURCE", "CUSTOM", "NONE"]),
  readonly: or(v.picklist(["SET", "REQUIRE", "IGNORE"]), "SET"),
  properties: or(flag, true),
  only_from_scratch: or(flag, false),
});

/** Starts a copy: the target is there at once, its content when the returned function is called. */
export function runOnetime(nas: Nas, [data]: readonly unknown[]): () => unknown {
  const fields = modelled(model, data, "replication_run_onetime");
  const source = fields.source_datasets[0] ?? "";
  const target = fields.target_dataset;
  const pattern = new RegExp(fields.name_regex ?? "^$");
  const wanted = Object.values(nas.state.snapshots).find(each => each.dataset === source && pattern.test(each.name));
  const of = existing(nas, source);
  if (!wanted) throw new CallError("EFAULT", `Dataset '${source}' does not have any matching snapshots to replicate`);
  if (fields.only_from_scratch && nas.state.datasets[target])
    throw new CallError("EFAULT", `Target dataset '${target}' already exists.`);
  const block = of.native["volblocksize"];
  made(nas, target, of.type, {
    native: {
      ...(wanted.volsize === undefined ? {} : { volsize: wanted.volsize }),
      ...(block === undefined ? {} : { volblocksize: block }),
    },
    mode: of.mode,
    uid: of.uid,
    gid: of.gid,
  });
  return () => {
    const copy = existing(nas, target);
    if (wanted.content !== undefined) copy.content = wanted.content;
    taken(nas, target, wanted.name, {});
    return null;
  };
}
