import { traces } from "./traces.ts";

// The host copies this program to a second guest, where a test of the first has it run.
process.stdout.write([...(await traces())].join("\n"));
