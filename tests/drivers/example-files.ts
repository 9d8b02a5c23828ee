import { readFileSync } from "node:fs";
import { parseDocument } from "yaml";
import { type ReadConnection, readConnection } from "../../lib/config/connection.ts";
import { noDefaults } from "../../lib/config/proxy.ts";
import { modules } from "../../lib/drivers/index.ts";
import { below } from "../../scripts/check/below.ts";

/** The folder of the examples, with a slash at its end. */
export const folder = new URL("../../examples/", import.meta.url);

/** An example file of a connection. */
export interface ExampleFile {
  /** Path below examples/. */
  readonly file: string;
  readonly driver: string;
  readonly text: string;
}

/** Every file below examples/ that says `driver: <name>`, but no main file. */
export const exampleFiles: readonly ExampleFile[] = below(folder.pathname)
  .filter(file => file.endsWith(".yaml"))
  .map(file => ({ file, text: readFileSync(new URL(file, folder), "utf8") }))
  .flatMap(({ file, text }) => {
    const driver = /^driver: (\S+)$/m.exec(text)?.[1];
    return driver === undefined || driver === "proxy" || text.includes("apiVersion:") ? [] : [{ file, driver, text }];
  });

/** One good file for each driver name; truenas-* shows what freenas-* shows. */
export const byDriver: ReadonlyMap<string, string> = new Map(
  modules
    .flatMap(module => module.names)
    .map(name => {
      const shown = name.replace(/^truenas-/, "freenas-");
      const text = exampleFiles.find(({ driver }) => driver === shown)?.text ?? "";
      return [name, text.replace(`driver: ${shown}`, `driver: ${name}`)];
    }),
);

const env = (name: string): string | undefined => (name === "QUICKSTART" ? "/srv/quickstart" : undefined);

/** An example with something in the places of secrets. */
const filledIn = (text: string): string =>
  text
    .replace(/put-the-[a-z]+-here/g, "filled-in")
    .replace("put the text of the key here", "b3BlbnNzaC1rZXktdjEAAAAABG5vbmU=");

/** Reads a connection file, secrets filled in, with nothing around it but the variable of the quick start. */
export const read = (text: string): ReadConnection =>
  readConnection("c1", "c1.yaml", filledIn(text), noDefaults, { env, file: () => undefined }, modules);

/** `rule path` of every diagnostic. */
export const gist = (text: string): readonly string[] =>
  read(text).diagnostics.map(({ rule, path }) => `${rule} ${path}`);

/** The text with one key changed, or removed where `value` is undefined. */
export function changed(text: string, path: readonly (string | number)[], value: unknown): string {
  const document = parseDocument(text);
  if (value === undefined) document.deleteIn(path);
  else document.setIn(path, value);
  return document.toString();
}
