import fc from "fast-check";
import { seed } from "./sample.ts";

fc.configureGlobal({ seed });

/** fast-check with the seed of this run, so that a case that is repeated alone gets the same values. */
export { fc };
