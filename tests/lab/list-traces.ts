import { traces } from "./traces.ts";

// The host copies this program to a second guest, where a test in the first guest runs it.
process.stdout.write([...(await traces())].join("\n"));
