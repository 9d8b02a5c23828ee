import * as v from "valibot";
import { templateFault } from "../core/template.ts";
import { type About, consistent, described, optional } from "./parts.ts";

/** Values that several storage drivers have in their files. */

const datasetPart = /^(?!\.{1,2}$)[A-Za-z0-9][A-Za-z0-9_.: -]*$/;

/**
 * A ZFS dataset below a pool or the pool itself, at most 200 bytes so that names below it stay within ZFS's 255; a
 * trailing "/" is dropped.
 */
export const dataset = (about: About): v.GenericSchema<unknown, string> =>
  described(
    v.pipe(
      v.string(),
      v.transform(value => value.replace(/\/$/, "")),
      v.minLength(1, "must not be empty"),
      v.check(value => !value.startsWith("/mnt/"), 'must be a dataset, not its mount point: remove "/mnt/"'),
      v.check(
        value => !value.startsWith("/") || value.startsWith("/mnt/"),
        'must be a dataset such as tank/k8s, not a path: remove the first "/"',
      ),
      v.check(value => !/[@#]/.test(value), "must be a dataset, not a snapshot or bookmark"),
      v.check(
        value => value.startsWith("/") || /[@#]/.test(value) || value.split("/").every(part => datasetPart.test(part)),
        'must be dataset names joined by single "/": letters, digits, "_", "-", ".", ":"',
      ),
      v.maxLength(200, "must be at most 200 characters, so that the names of volumes and snapshots below it fit"),
    ),
    about,
  );

/** Whether one dataset equals the other or is below it. */
export const overlap = (one: string, other: string): boolean =>
  `${one}/`.startsWith(`${other}/`) || `${other}/`.startsWith(`${one}/`);

const blockSizes = ["512", "1K", "2K", "4K", "8K", "16K", "32K", "64K", "128K"] as const;
const bytesOf = (size: string): string => String(size.endsWith("K") ? Number(size.slice(0, -1)) * 1024 : Number(size));

/**
 * `volblocksize`: a power of two from 512 to 128K, also in bytes; empty means 16K. The result is the short form, such
 * as "16K".
 */
export const blockSize = (about: About): v.GenericSchema<unknown, string> =>
  described(
    v.pipe(
      v.union([v.string(), v.number()], "must be a size such as 16K"),
      v.transform(value =>
        String(value)
          .trim()
          .toUpperCase()
          .replace(/^$/, "16K")
          .replace(/(\d)KI?B?$/, "$1K"),
      ),
      v.transform(value => blockSizes.find(size => size === value || bytesOf(size) === value) ?? value),
      v.picklist(blockSizes, `must be one of ${blockSizes.join(", ")}`),
    ),
    about,
  );

/** Text with `{{ name }}` and `{{ parameters.[key] }}`; `${env:NAME}` is not expanded in it. */
export const templated = (about: About): v.GenericSchema<unknown, string> =>
  described(
    v.pipe(
      v.union([v.string(), v.number(), v.boolean()], "must be text"),
      v.transform(String),
      v.rawCheck(({ dataset: found, addIssue }) => {
        const message = found.typed ? templateFault(found.value) : undefined;
        if (message !== undefined) addIssue({ message });
      }),
    ),
    { ...about, expand: false },
  );

/** Text that must match a pattern; `help` is the message if it does not. */
export const shaped = (pattern: RegExp, help: string, about: About): v.GenericSchema<unknown, string> =>
  described(v.pipe(v.string(), v.regex(pattern, help)), about);

/** The folder of an SMB share: the name of the share and a path in it, without "..". */
export const shareFolder = (about: About): v.GenericSchema<unknown, string> =>
  described(
    v.pipe(
      v.string(),
      v.check(
        value => /[^/]/.test(value),
        'must be the name of a share, optionally followed by "/" and a folder in it',
      ),
      v.check(value => !/[\0\r\n]/.test(value), "must not contain line breaks or NUL"),
      v.check(value => !value.includes("\\"), 'must use "/", not "\\"'),
      v.check(value => !value.split("/").includes(".."), 'must not contain ".."'),
      v.transform(value => value.replace(/(.)\/$/, "$1")),
    ),
    about,
  );

/** A mapping with free keys that must match a pattern; `help` is the message if one does not. */
export const withKeys = <S extends v.GenericSchema<unknown, object>>(pattern: RegExp, help: string, section: S): S =>
  consistent(section, function* (value) {
    for (const key of Object.keys(value)) if (!pattern.test(key)) yield [[key], help];
  });

/** Start of iSCSI names (RFC 3720, 3.2.6.3.1): iqn.YYYY-MM.reversed-domain[:text]. */
export const iqnBase = (about: About): v.GenericSchema<unknown, string> =>
  shaped(
    /^iqn\.[0-9]{4}-(?:0[1-9]|1[0-2])\.[A-Za-z0-9][A-Za-z0-9.:-]{0,150}$/,
    'must look like iqn.2024-01.org.example:storage: a year and month, a reversed domain, letters, digits, ".", ":", "-"',
    about,
  );

/** Start of NVMe names (NVMe Base Specification, "NVMe Qualified Names"): nqn.YYYY-MM.reversed-domain[:text]. */
export const nqnBase = (about: About): v.GenericSchema<unknown, string> =>
  shaped(
    /^nqn\.[0-9]{4}-(?:0[1-9]|1[0-2])\.[A-Za-z0-9][A-Za-z0-9._:-]{0,150}$/,
    'must look like nqn.2024-01.org.example:storage: a year and month, a reversed domain, letters, digits, ".", ":", "-", "_"',
    about,
  );

/** The naming of a target, share or subsystem after its volume. `allowed` is the pattern of prefix and suffix. */
export const naming = (allowed: RegExp, help: string) => ({
  nameTemplate: optional(
    templated({
      description: "the name, from `name` and `parameters`; must be unique for every volume",
      absent: "the name of the volume",
      example: "{{ parameters.[csi.storage.k8s.io/pvc/namespace] }}-{{ parameters.[csi.storage.k8s.io/pvc/name] }}",
    }),
  ),
  namePrefix: optional(shaped(allowed, help, { description: "prefix of every name", example: "csi-" }), ""),
  nameSuffix: optional(shaped(allowed, help, { description: "suffix of every name", example: "-clustera" }), ""),
});
