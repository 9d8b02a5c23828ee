import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { parse } from "yaml";
import { below } from "../scripts/check/below.ts";
import { byDriver, changed, exampleFiles, folder } from "./drivers/example-files.ts";

/** Strict, so that a keyword that JSON Schema does not know is an error instead of a rule that never applies. */
const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, strictRequired: false });
const compiled = new Map<string, ValidateFunction>();

function validatorOf(driver: string): ValidateFunction {
  const read = () => JSON.parse(readFileSync(new URL(`schemas/${driver}.json`, folder), "utf8"));
  const validate = compiled.get(driver) ?? ajv.compile(read());
  compiled.set(driver, validate);
  return validate;
}

const mainFiles = below(folder.pathname)
  .filter(file => file.endsWith("proxy.yaml"))
  .map(file => ({ file, driver: "proxy", text: readFileSync(new URL(file, folder), "utf8") }));

/** `where keyword what` of everything that the schema of the driver finds wrong in a text. */
function refusals(driver: string, text: string): readonly string[] {
  const validate = validatorOf(driver);
  validate(parse(text));
  return (validate.errors ?? []).map(
    ({ instancePath, keyword, params }) => `${instancePath} ${keyword} ${Object.values(params).join(" ")}`,
  );
}

const drivers = [...byDriver].map(([driver, text]) => ({ driver, text }));

describe("JSON Schemas in the eyes of ajv", () => {
  test("there are main files to check", () => {
    expect(mainFiles.length).toBeGreaterThan(2);
  });

  test.each([...exampleFiles, ...mainFiles])("$file is accepted", ({ driver, text }) => {
    expect(refusals(driver, text)).toEqual([]);
  });

  test.each(drivers)("$driver: its example is accepted", ({ driver, text }) => {
    expect(refusals(driver, text)).toEqual([]);
  });

  test.each(drivers)("$driver: a misspelt key is refused at the top", ({ driver, text }) => {
    expect(refusals(driver, changed(text, ["instnace_id"], "x"))).toEqual([" additionalProperties instnace_id"]);
  });

  test.each(drivers)("$driver: a misspelt key is refused further below", ({ driver, text }) => {
    expect(refusals(driver, changed(text, ["proxy", "perDriver", "topolgy"], []))).toEqual([
      "/proxy/perDriver additionalProperties topolgy",
    ]);
  });

  test("a misspelt key of the driver's own section is refused", () => {
    const text = byDriver.get("zfs-generic-nfs") ?? "";
    expect(refusals("zfs-generic-nfs", changed(text, ["zfs", "datasetParentname"], "tank/v"))).toEqual([
      "/zfs additionalProperties datasetParentname",
    ]);
  });

  test("a misspelt key of the main file is refused", () => {
    expect(refusals("proxy", "driver: proxy\nproxy:\n  configFoldr: ./connections\n")).not.toEqual([]);
  });

  test("the schema of another driver refuses a file", () => {
    const text = byDriver.get("nfs-client") ?? "";
    expect(refusals("lustre-client", text)).not.toEqual([]);
  });
});
