import { jsonSize } from "../../sizes.ts";
import type { NewDataset } from "../../zfs/zfs.ts";
import { apiValues, asList } from "./values.ts";

/** The request that makes a dataset, with those above it where `parents` says so. */
export function creation(
  { name, volsize, values }: NewDataset,
  parents: boolean,
  shareType: "GENERIC" | "SMB",
): object {
  const { fields, user } = apiValues(values);
  const common = { name, create_ancestors: parents, user_properties: asList(user) };
  if (volsize === undefined) return { ...fields, ...common, type: "FILESYSTEM", share_type: shareType };
  const { refreservation, ...rest } = fields;
  // A thick volume has its size set aside by the server; a sparse one is allowed to be larger than what is free.
  const sparse = refreservation === 0;
  return {
    ...rest,
    ...common,
    type: "VOLUME",
    volsize: jsonSize(volsize),
    sparse,
    ...(sparse ? { force_size: true } : {}),
  };
}
