import type { Release } from "../../../lib/takeover/old.ts";
import { UsageError } from "../../terminal/terminal.ts";

/** The flags of `takeover`, under commander's names. */
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

/** The validated command line of `takeover`. */
export interface TakeoverOptions {
  /** Files of values, each with its release if given. */
  readonly values: readonly { readonly file: string; readonly release: Release | undefined }[];
  readonly secrets: readonly string[];
  readonly out: string;
  readonly name: string;
  readonly namespace: string;
  readonly image: string | undefined;
  /** The file of PersistentVolumes. */
  readonly volumes: string | undefined;
}

/** The form of an object's name in Kubernetes (RFC 1123, label). */
const label = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** Validates the flags. `driverName` throws for an invalid name. Throws UsageError. */
export function takeoverOptions(flags: TakeoverFlags, driverName: (name: string) => string): TakeoverOptions {
  const { values = [], release: releases = [], secret = [], out, name, namespace, image, printPvs } = flags;
  if (values.length === 0)
    throw new UsageError("--values is missing: a file with the output of helm get values -o yaml");
  if (!out) throw new UsageError("--out is missing: a new folder for the files");
  if (releases.length > 0 && releases.length !== values.length)
    throw new UsageError("give --release once for each --values, in the same order");
  if (!label.test(namespace)) throw new UsageError(`--namespace "${namespace}" is not a namespace name`);
  if (image !== undefined && !/^[\w.:/@-]+$/.test(image))
    throw new UsageError(`--image "${image}" is not an image name`);
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
    throw new UsageError(`--release must be <namespace>/<name>, as in helm list -A, not "${text}"`);
  return { namespace, name };
}
