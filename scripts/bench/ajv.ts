import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { parse } from "yaml";
import { root } from "../spawned.ts";

/** What one folder of connection files came to. */
export interface Outcome {
  readonly files: number;
  /** `file: what ajv said` for each file that its schema refuses. */
  readonly failures: readonly string[];
}

/**
 * Gives the validator of a driver, from the generated JSON Schema, compiled when first asked for. Strict, so that a keyword
 * which JSON Schema does not know is an error and not a rule that never fires.
 */
export function validators(): (driver: string) => ValidateFunction {
  const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, strictRequired: false });
  const compiled = new Map<string, ValidateFunction>();
  return driver => {
    const known = compiled.get(driver);
    if (known) return known;
    const validate = ajv.compile(JSON.parse(readFileSync(`${root}/examples/schemas/${driver}.json`, "utf8")));
    compiled.set(driver, validate);
    return validate;
  };
}

/** Validates every connection file of a folder: the yardstick for `csimux validate`, which looks at far more. */
function validateFolder(folder: string): Outcome {
  const validatorOf = validators();
  const names = readdirSync(folder).filter(name => name.endsWith(".yaml"));
  const failures = names.flatMap(name => {
    const content: { readonly driver: string } = parse(readFileSync(join(folder, name), "utf8"));
    const validate = validatorOf(content.driver);
    return validate(content) ? [] : [`${name}: ${validate.errors?.[0]?.instancePath} ${validate.errors?.[0]?.message}`];
  });
  return { files: names.length, failures };
}

if (import.meta.main) console.log(JSON.stringify(validateFolder(process.argv[2] ?? ".")));
