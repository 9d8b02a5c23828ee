export { FairTurns as Turns } from "../../io/fair-turns.ts";
