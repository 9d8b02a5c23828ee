import { readFileSync } from "node:fs";
import { Command, Option } from "commander";
import { startDouble } from "../tests/fakes/truenas/double.ts";
import { type Version, versions } from "../tests/fakes/truenas/versions.ts";

/** Starts the TrueNAS double by hand, to try a configuration without a NAS. */

interface Flags {
  readonly version: Version;
  readonly port: string;
  readonly address: string;
  readonly cert?: string;
  readonly key?: string;
  readonly latency: string;
  readonly record?: string;
}

const command = new Command("truenas-double")
  .description("a TrueNAS without disks: pool tank, API key 1-secret, user csi with password 'correct horse'")
  .addOption(new Option("--version <version>").choices(versions).default("25.10"))
  .option("--port <port>", "port to listen on; 0 for a free one", "6000")
  .option("--address <address>", "address to listen on", "127.0.0.1")
  .option("--cert <file>", "certificate in PEM form, for https")
  .option("--key <file>", "its key")
  .option("--latency <ms>", "time that each request takes", "0")
  .option("--record <file>", "append each request as a line of JSON");

const flags = command.parse().opts<Flags>();
const text = (file: string) => readFileSync(file, "utf8");
const tls = flags.cert && flags.key ? { tls: { cert: text(flags.cert), key: text(flags.key) } } : {};
const double = await startDouble({
  version: flags.version,
  port: Number(flags.port),
  address: flags.address,
  latencyMs: Number(flags.latency),
  loginLimit: 20,
  ...(flags.record === undefined ? {} : { record: flags.record }),
  ...tls,
});
console.log(`TrueNAS ${flags.version} double on ${flags.cert ? "https" : "http"}://${flags.address}:${double.port}`);
