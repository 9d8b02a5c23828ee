import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { hasGoProgram } from "../../scripts/cluster/tools.ts";
import { type Double, startDouble } from "../fakes/truenas/double.ts";
import { makeAuthority, makeServer } from "../io/certificates.ts";
import { sectionsOf } from "./page.ts";
import { Reader } from "./reader.ts";

test("the README has commands in its section about installing only", () => {
  expect(sectionsOf("README").map(({ title }) => title)).toEqual(["Install"]);
});

describe.if(hasGoProgram("kustomize"))("the short way of the README", () => {
  let double: Double;
  let reader: Reader;

  beforeAll(async () => {
    reader = await Reader.start("README");
    makeAuthority(reader.folder, "authority");
    const { cert, key } = makeServer(reader.folder, "authority");
    double = await startDouble({
      version: "25.10",
      tls: { cert: readFileSync(cert, "utf8"), key: readFileSync(key, "utf8") },
    });
    const nas = {
      driver: "truenas-api-nfs",
      httpConnection: {
        ...{ protocol: "https", host: "127.0.0.1", port: double.port, username: "csi", password: "correct horse" },
        ca: readFileSync(join(reader.folder, "authority.crt"), "utf8"),
      },
      zfs: { datasetParentName: "tank/v", detachedSnapshotsDatasetParentName: "tank/s", datasetEnableQuotas: true },
      nfs: { shareHost: "10.0.0.41", shareAllowedNetworks: ["10.0.0.0/24"] },
    };
    writeFileSync(join(reader.folder, "nas.yaml"), JSON.stringify(nas));
    // What a person does in the editor.
    const steps = [
      '*/nas.yaml) cp "$HOME/nas.yaml" "$file" ;;',
      "*/kustomization.yaml) sed -i 's#newName: registry.example.org#newName: registry.lan#' \"$file\" ;;",
    ];
    reader.program("edit", `for file; do case "$file" in\n${steps.join("\n")}\nesac; done`);
    reader.changes.set("${EDITOR:-vi}", "edit");
  }, 600_000);
  afterAll(async () => {
    await reader.end();
    await double.close();
  });

  test("leads to a connection that works", async () => {
    const said = await reader.plays("Install");
    expect(said).toContain("no problems");
    expect(said).toMatch(/^nas +good/m);
  }, 180_000);
});
