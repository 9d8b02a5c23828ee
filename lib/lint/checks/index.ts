import type { Check } from "../lint-input.ts";
import { attach } from "./attach.ts";
import { chap } from "./chap.ts";
import { classes } from "./classes.ts";
import { connections } from "./connections.ts";
import { exports } from "./exports.ts";
import { groups } from "./groups.ts";
import { helm } from "./helm.ts";
import { mainFile } from "./main-file.ts";
import { manifests } from "./manifests.ts";
import { storage } from "./storage.ts";
import { topology } from "./topology.ts";
import { transport } from "./transport.ts";
import { volumes } from "./volumes.ts";

/** Every rule that looks at more than one key, one line for each theme. */
export const checks: readonly Check[] = [
  mainFile,
  connections,
  topology,
  groups,
  storage,
  transport,
  exports,
  chap,
  classes,
  volumes,
  helm,
  attach,
  manifests,
];
