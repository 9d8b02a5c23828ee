import type { Check, Rule, Theme } from "../rule.ts";
import { classParameters } from "./class-parameters.ts";
import { classes } from "./classes.ts";
import { connections } from "./connections.ts";
import { copies } from "./copies.ts";
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

const themes: readonly Theme[] = [
  reading,
  mainFile,
  connections,
  topology,
  groups,
  copies,
  storage,
  security,
  classes,
  classParameters,
  volumes,
  manifests,
  helm,
  placeholders,
];

/** Every rule, in the order of the documentation. */
export const rules: readonly Rule[] = themes.flatMap(each => each.rules);

/** Every check. */
export const checks: readonly Check[] = themes.flatMap(({ check }) => check ?? []);
