import type { Release } from "../../lib/takeover/old.ts";
import { UsageError } from "../terminal/usage-error.ts";

/** What the command line of `takeover` may hold, under commander's names. */
export interface TakeoverFlags {
  readonly values?: readonly string[];
  readonly release?: readonly string[];
  readonly secret?: readonly string[];
  readonly out?: string;
  readonly name: string;
  readonly namespace: string;
  readonly image?: string;
  readonly printPvs?: string;
}

/** The command line of `takeover`, checked. */
export interface TakeoverOptions {
  /** Files of values, each with its release where that was named. */
  readonly values: readonly { readonly file: string; readonly release: Release | undefined }[];
  readonly secrets: readonly string[];
  readonly out: string;
  readonly name: string;
  readonly namespace: string;
  readonly image: string | undefined;
  /** The file of PersistentVolumes. */
  readonly volumes: string | undefined;
}

/** What Kubernetes takes for a name of an object (RFC 1123, label). */
const label = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** `driverName` throws for what is none. Throws UsageError. */
export function takeoverOptions(flags: TakeoverFlags, driverName: (name: string) => string): TakeoverOptions {
  const { values = [], release: releases = [], secret = [], out, name, namespace, image, printPvs } = flags;
  if (values.length === 0) throw new UsageError("--values is missing: a file that helm get values -o yaml printed");
  if (!out) throw new UsageError("--out is missing: a new folder for the files");
  if (releases.length > 0 && releases.length !== values.length)
    throw new UsageError("give --release once for each --values, in the same order");
  if (!label.test(namespace)) throw new UsageError(`--namespace "${namespace}" is no name of a namespace`);
  if (image !== undefined && !/^[\w.:/@-]+$/.test(image)) throw new UsageError(`--image "${image}" is no image`);
  return {
    values: values.map((file, index) => ({ file, release: releaseOf(releases[index]) })),
    secrets: secret,
    out,
    name: driverName(name),
    namespace,
    image,
    volumes: printPvs,
  };
}

function releaseOf(text: string | undefined): Release | undefined {
  if (text === undefined) return undefined;
  const [namespace = "", name = "", ...more] = text.split("/");
  if (more.length > 0 || !label.test(namespace) || !/^[a-z0-9](?:[a-z0-9.-]{0,51}[a-z0-9])?$/.test(name))
    throw new UsageError(`--release is <namespace>/<name>, as helm list -A shows them, not "${text}"`);
  return { namespace, name };
}
