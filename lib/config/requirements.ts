import * as v from "valibot";
import { consistent, mapOf, scalar } from "../schema/parts.ts";
import { isLabelValue } from "../topology/labels.ts";

/** A value of a topology key or label. */
export const labelValue = (description: string) =>
  v.pipe(
    scalar({ description }, "must be a single value: for several, write one entry of topology for each"),
    v.check(isLabelValue, 'must be a label value: 1 to 63 letters, digits, ".", "_" or "-"'),
  );

/** Topology keys without prefix, and the values that a node must report; at least one. */
export const requirements = consistent(
  mapOf(labelValue("value that nodes report for this key"), {
    description: "topology keys without prefix, and the values that a node must report",
    example: { zone: "z1" },
  }),
  function* (each) {
    const keys = Object.keys(each);
    if (keys.length === 0) yield [[], "must name at least one topology key"];
    for (const key of keys) {
      if (key.includes("/")) yield [[key], `write the key without prefix: "${key.slice(key.lastIndexOf("/") + 1)}"`];
      else if (!isLabelValue(key)) yield [[key], 'must be a topology key: 1 to 63 letters, digits, ".", "_" or "-"'];
    }
  },
);
