import { classParameters } from "./class-parameters.ts";
import { classes } from "./classes.ts";
import { connections } from "./connections.ts";
import { copies } from "./copies.ts";
import type { Examples } from "./files.ts";
import { groups } from "./groups.ts";
import { helm } from "./helm.ts";
import { mainFile } from "./main-file.ts";
import { manifests } from "./manifests.ts";
import { placeholders } from "./placeholders.ts";
import { reading } from "./reading.ts";
import { security } from "./security.ts";
import { storage } from "./storage.ts";
import { topology } from "./topology.ts";
import { volumes } from "./volumes.ts";

/** The examples of every rule. */
export const examples: Examples = {
  ...classParameters,
  ...classes,
  ...connections,
  ...groups,
  ...copies,
  ...helm,
  ...mainFile,
  ...manifests,
  ...placeholders,
  ...reading,
  ...security,
  ...storage,
  ...topology,
  ...volumes,
};
