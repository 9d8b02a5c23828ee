import { consistent, flag, mapOf, optional, record, scalar } from "../../schema/parts.ts";
import { shaped, withKeys } from "../../schema/storage.ts";

const values = withKeys(
  /^[A-Za-z_][A-Za-z0-9_]*$/,
  "must be the name of an environment variable",
  mapOf(scalar({ description: "value of the variable", secret: true }), {
    description:
      "environment of mount.objectivefs: OBJECTSTORE, OBJECTIVEFS_LICENSE with the admin key, ENDPOINT, ACCESS_KEY, SECRET_KEY, OBJECTIVEFS_PASSPHRASE (never change it)",
    example: { OBJECTSTORE: "minio://", ENDPOINT: "https://s3.example.org" },
  }),
);

const environment = consistent(values, function* (value) {
  if (!value["OBJECTSTORE"]) yield [["OBJECTSTORE"], 'required key "OBJECTSTORE" is missing: which object store it is'];
});

/** The sections of objectivefs. */
export const objectivefsSchema = record({
  objectivefs: record(
    {
      pool: shaped(/^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/, 'must be a bucket: letters, digits, ".", "_", "-"', {
        description: "the bucket that holds every volume; use it for nothing else",
        example: "csi-volumes",
      }),
      cli: optional(
        record(
          { sudoEnabled: optional(flag({ description: "run mount.objectivefs through sudo" }), false) },
          { description: "how mount.objectivefs is run" },
        ),
      ),
      env: environment,
    },
    { description: "file systems in an object store" },
  ),
});
