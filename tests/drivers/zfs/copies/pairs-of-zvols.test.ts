import { testPairs } from "./pairs.ts";

// In a file of its own, so that both contents run side by side.

testPairs("zvols");
