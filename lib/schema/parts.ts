import * as v from "valibot";

/** The description of one key for documentation, JSON Schemas and messages. */
export interface About {
  /** One or two sentences: the meaning of the key and what depends on it. */
  readonly description: string;
  /** Unit of a number: "minutes", "bytes", "ms". */
  readonly unit?: string;
  /** The effect if the key is absent, unless a literal default states it. */
  readonly absent?: string;
  /** A valid value. */
  readonly example?: unknown;
  /** The value is never printed. The key may also be given as `<key>File`, a path whose content is the value. */
  readonly secret?: true;
  /** False for templates and patterns: `${env:NAME}` is not expanded in them. */
  readonly expand?: false;
  /** What a value in a file means that is written otherwise; undefined for any other value. */
  readonly reading?: (value: unknown) => Reading | undefined;
}

/** What a value in a file means, with the words for the warning about it; without words there is none. */
export interface Reading {
  /** Undefined: the key counts as absent. */
  readonly value: unknown;
  /** What is odd about the value, and what to write. */
  readonly warning?: readonly [message: string, fix: string];
}

/** The description of a mapping as a whole, and the accepted other spellings of its keys. */
export interface AboutRecord {
  readonly description?: string;
  /** Misspelt or outdated key → correct key. Accepted with a warning. */
  readonly aliases?: Readonly<Record<string, string>>;
  /**
   * Keys of other drivers or of democratic-csi that have no effect here, each with the reason. Accepted with a warning.
   */
  readonly ignored?: Readonly<Record<string, string>>;
}

/** A schema with the description of its key. */
export const described = <T>(schema: v.GenericSchema<unknown, T>, about: About): v.GenericSchema<unknown, T> =>
  v.pipe(schema, v.metadata({ ...about }));

/**
 * A mapping with these keys and no others. Reports every unknown key
 * (valibot's strictObject stops at the first). An empty value (`key:`) counts as absent.
 */
export function record<const E extends v.ObjectEntries>(
  entries: E,
  about: AboutRecord = {},
): v.ObjectSchema<E, undefined> {
  const schema = v.pipe(v.objectWithRest(entries, v.never("unknown key")), v.metadata({ ...about }));
  // objectWithRest types every key as never if the rest is; its output is a plain object's.
  return schema as unknown as v.ObjectSchema<E, undefined>;
}

/** A key that may be absent; `fallback` is then used and documented. */
export function optional<S extends v.GenericSchema>(schema: S): v.OptionalSchema<S, undefined>;
export function optional<S extends v.GenericSchema, const D extends v.InferInput<S>>(
  schema: S,
  fallback: D,
): v.OptionalSchema<S, D>;
export function optional(schema: v.GenericSchema, fallback?: unknown): v.GenericSchema {
  return fallback === undefined ? v.optional(schema) : v.optional(schema, fallback);
}

/** Text that may be empty. */
export const text = (about: About): v.GenericSchema<unknown, string> => described(v.string(), about);

/** Text that passes these checks, each with the message if it does not. */
export const checked = (
  about: About,
  ...checks: readonly (readonly [holds: (value: string) => boolean, message: string])[]
): v.GenericSchema<unknown, string> =>
  described(
    v.pipe(
      v.string(),
      v.rawCheck(({ dataset, addIssue }) => {
        if (!dataset.typed) return;
        for (const [holds, message] of checks) if (!holds(dataset.value)) addIssue({ message });
      }),
    ),
    about,
  );

/** Text that must not be empty. */
export const filled = (about: About): v.GenericSchema<unknown, string> =>
  described(v.pipe(v.string(), v.trim(), v.minLength(1, "must not be empty")), about);

/** Secret text: never printed, never in a message. */
export const secret = (about: About): v.GenericSchema<unknown, string> =>
  described(v.pipe(v.string(), v.minLength(1, "must not be empty")), { ...about, secret: true });

/** Text with its own placeholders; `${env:NAME}` is not expanded in it. */
export const template = (about: About): v.GenericSchema<unknown, string> =>
  described(v.string(), { ...about, expand: false });

/** true or false. */
export const flag = (about: About): v.GenericSchema<unknown, boolean> => described(v.boolean(), about);

/** A whole number from `min` to `max`. */
export const whole = (about: About, min = 0, max: number = Number.MAX_SAFE_INTEGER): v.GenericSchema<unknown, number> =>
  described(
    v.pipe(
      v.number(),
      v.integer("must be a whole number"),
      v.minValue(min, `must be at least ${min}`),
      v.maxValue(max, `must be at most ${max}`),
    ),
    about,
  );

/** A TCP or UDP port. */
export const port = (about: About): v.GenericSchema<unknown, number> => whole(about, 1, 65535);

/** One of a few words. */
export const oneOf = <const T extends readonly string[]>(
  values: T,
  about: About,
): v.GenericSchema<unknown, T[number]> =>
  described(
    v.picklist(values, `must be one of ${values.map(value => (value === "" ? '""' : value)).join(", ")}`),
    about,
  );

/** An absolute path without ".." parts; one trailing "/" is dropped. */
export const path = (about: About): v.GenericSchema<unknown, string> =>
  described(
    v.pipe(
      v.string(),
      v.regex(/^\//, "must be an absolute path"),
      v.check(value => !/[\0\r\n]/.test(value), "must not contain line breaks or NUL"),
      v.check(value => !value.split("/").includes(".."), 'must not contain ".."'),
      v.transform(value => (value.length > 1 ? value.replace(/\/$/, "") : value)),
    ),
    about,
  );

/** Like `path`, for a folder other than the root of the machine. */
export const folder = (about: About): v.GenericSchema<unknown, string> =>
  described(
    v.pipe(
      path(about),
      v.check(value => /[^/]/.test(value), 'must be a folder below "/", not "/" itself'),
    ),
    about,
  );

const placeholders: ReadonlySet<unknown> = new Set(["server address", "server[:port]", "tcp://server:port"]);

/** Placeholders in csimux's own examples, and the dots of a published key. */
const ownPlaceholder = /^(?:[0-9]+-)?put-the-[a-z]+-here$|^\s*put the text of the key here\s*$|^\s*\.\.\.\s*$/m;

/** Whether a text contains a placeholder for a secret from csimux's examples. */
export const holdsPlaceholder = (value: string): boolean => ownPlaceholder.test(value);

/** Whether a value is a placeholder from democratic-csi's published examples: causes a warning, is not refused. */
export const isPlaceholder = (value: unknown): boolean => placeholders.has(value);

function notHost(value: string): string {
  if (value === "") return "must not be empty";
  if (/\s/.test(value)) return "must not contain spaces";
  if (value.includes("://"))
    return `must be a host name or an address only: remove "${value.slice(0, value.indexOf("://") + 3)}"`;
  if (value.includes("/")) return "must be a host name or an address only: the path has its own key";
  return "must be a host name or an address, without scheme, port or path";
}

const hostShape = /^(?:[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_.])?|\[?[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?\]?)$/;

/** A host name or an address, without scheme and port. */
export const host = (about: About): v.GenericSchema<unknown, string> =>
  described(
    v.pipe(
      v.string(),
      v.check(
        value => isPlaceholder(value) || hostShape.test(value),
        issue => notHost(String(issue.input)),
      ),
    ),
    about,
  );

const portalShape = /^(?:\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?\]|[A-Za-z0-9_.-]+)(?::[0-9]{1,5})?$/;

/** `host` or `host:port`; an IPv6 address is written in brackets. May be empty, which counts as absent. */
export const portal = (about: About): v.GenericSchema<unknown, string> =>
  checked(about, [
    value => value === "" || isPlaceholder(value) || portalShape.test(value),
    "must be host or host:port (IPv6 in brackets)",
  ]);

/** A list; each item is checked. */
export const list = <S extends v.GenericSchema>(item: S, about: About): v.GenericSchema<unknown, v.InferOutput<S>[]> =>
  described(v.array(item), about);

/** A mapping with free keys. */
export const mapOf = <S extends v.GenericSchema>(
  value: S,
  about: About,
): v.GenericSchema<unknown, Record<string, v.InferOutput<S>>> => described(v.record(v.string(), value), about);

/**
 * A scalar that is passed on as text (a ZFS property, a targetcli attribute): 1, true or "on". `help` is the message
 * for lists and mappings.
 */
export const scalar = (about: About, help = "must be text, a number or a boolean"): v.GenericSchema<unknown, string> =>
  described(v.pipe(v.union([v.string(), v.number(), v.boolean()], help), v.transform(String)), about);

/** A value of any shape that is passed on unchanged. */
export const anything = (about: About): v.GenericSchema<unknown, unknown> => described(v.unknown(), about);

/** Thrown when a rule reads a value that is invalid by itself. */
class WrongByItself extends Error {}

type Keys = readonly (string | number)[];

/** The same mapping or list for a rule: reading a value that is invalid by itself throws WrongByItself. */
function guarded(value: object, faults: readonly Keys[]): object {
  return new Proxy(value, {
    get(target, key) {
      const inner: unknown = Reflect.get(target, key);
      const below = faults.filter(([first]) => String(first) === key);
      if (below.some(({ length }) => length === 1)) throw new WrongByItself();
      const isWhole = below.length === 0 || typeof inner !== "object" || inner === null;
      return isWhole
        ? inner
        : guarded(
            inner,
            below.map(([, ...rest]) => rest),
          );
    },
  });
}

/** The findings of a rule until it reads a value that is invalid by itself. */
function* untilFault<T>(find: () => Iterable<T>): Iterable<T> {
  try {
    yield* find();
  } catch (error) {
    if (!(error instanceof WrongByItself)) throw error;
  }
}

/**
 * A rule over several keys of one mapping. It never sees a key of a wrong type: the rule stops when it reads one and
 * applies fully once that is corrected. `problems` yields the path of the key at fault, below this mapping, and what is
 * wrong.
 */
export function consistent<S extends v.GenericSchema<unknown, object>>(
  schema: S,
  problems: (value: v.InferOutput<S>) => Iterable<readonly [path: readonly (string | number)[], message: string]>,
): S {
  const check = v.rawCheck<object>(({ dataset, addIssue }) => {
    const { value, typed, issues = [] } = dataset;
    const faults = issues.map(
      ({ path = [] }): Keys => path.map(({ key }) => (typeof key === "number" ? key : String(key))),
    );
    if (typeof value !== "object" || value === null || faults.some(({ length }) => length === 0)) return;
    const seen = (typed ? value : guarded(value, faults)) as v.InferOutput<S>;
    for (const [path, message] of untilFault(() => problems(seen))) {
      const [first, ...rest] = path.map(key => pathItem(value, key));
      addIssue(first ? { message, path: [first, ...rest] } : { message });
    }
  });
  return v.pipe(schema as v.GenericSchema<unknown, object>, check) as unknown as S;
}

const pathItem = (input: unknown, key: string | number): v.IssuePathItem => ({
  type: "unknown",
  origin: "value",
  input,
  key,
  value: undefined,
});
