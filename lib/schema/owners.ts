import * as v from "valibot";
import { type About, described, type Reading } from "./parts.ts";

/** Permissions and owners of folders. */

/** Empty text counts as absent, as in democratic-csi. */
const unlessEmpty = (value: unknown): Reading | undefined => (value === "" ? { value: undefined } : undefined);

const unquoted = (value: number, digits: string): Reading => ({
  value: digits,
  warning: [
    `${value} without quotes is read as ${digits}; Helm makes 511 of 0777`,
    'write octal digits in quotes: "0777"',
  ],
});

/**
 * Numbers that Helm makes of 0700 to 0777 (YAML 1.1, "int"). Where such a number has octal digits only, they would keep the owner
 * from writing (0450 to 0511), and a volume is not made for that.
 */
const mayBeBits = (value: unknown): value is number => typeof value === "number" && value >= 0o700 && value <= 0o777;

/**
 * Permission bits as octal digits, as text ("0777") or as a number whose decimal digits are octal (777): never the
 * number's value, which would be octal 1411. The result is the digits without a leading "0o".
 */
export const mode = (about: About): v.GenericSchema<unknown, string> =>
  bits({
    reading: value =>
      mayBeBits(value) && /^[0-7]{3}$/.test(String(value)) ? unquoted(value, `0${value}`) : unlessEmpty(value),
    ...about,
  });

/**
 * Like `mode`, but 448 to 511 is the value itself: democratic-csi gives chmod(2) the number that it reads, which for
 * an unquoted 0777 in Helm values is 511.
 */
export const folderMode = (about: About): v.GenericSchema<unknown, string> =>
  bits({
    reading: value => (mayBeBits(value) ? unquoted(value, value.toString(8).padStart(4, "0")) : unlessEmpty(value)),
    ...about,
  });

const bits = (about: About): v.GenericSchema<unknown, string> =>
  described(
    v.pipe(
      v.union([v.string(), v.number()], "must be octal digits in quotes"),
      v.transform(value => String(value).replace(/^0o/, "")),
      v.regex(/^[0-7]{3,4}$/, "must be three or four octal digits"),
    ),
    about,
  );

/** The largest id of a user or group: the one after it tells chown(2) to change nothing. */
const largestOwner = 4_294_967_294;

/** A user or group: a name or a number; 0 (root) counts as given. */
export const owner = (about: About): v.GenericSchema<unknown, string> =>
  described(
    v.pipe(
      v.union([v.string(), v.number()], "must be a name or a number"),
      v.transform(String),
      v.regex(/^(?:[0-9]+|[A-Za-z_][A-Za-z0-9_.@\\-]*\$?)$/, "must be a user or group name, or a number"),
      v.check(value => !(Number(value) > largestOwner), `must be at most ${largestOwner} if it is a number`),
    ),
    { reading: unlessEmpty, ...about },
  );

/**
 * Like `owner`, but the number 0 counts as absent, as in democratic-csi's drivers of folders, whose examples have it: chown(2)
 * to root fails on an export that squashes root, and a copied folder would lose its owner. "0" and "root" are owners.
 */
export const folderOwner = (about: About): v.GenericSchema<unknown, string> =>
  owner({ reading: value => (value === 0 || value === "" ? { value: undefined } : undefined), ...about });

/** A user or group of a system that accepts only numbers; 0 counts as given. */
export const numericOwner = (about: About): v.GenericSchema<unknown, string> =>
  described(
    v.pipe(
      v.union([v.string(), v.number()], "must be a number"),
      v.transform(String),
      v.regex(/^[0-9]{1,10}$/, "must be the number of a user or group: this system does not accept names here"),
    ),
    { reading: unlessEmpty, ...about },
  );
