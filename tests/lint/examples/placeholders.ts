import { controller, csiDriver, type Examples } from "./files.ts";

const pod = (image: string): string => controller("").replace("registry.example.org/csimux", `${image}:0.1.0`);

/** Examples of the rules in lib/lint/rules/placeholders.ts. */
export const placeholders: Examples = {
  "placeholder-image": {
    bad: { "pod.yaml": pod("registry.example.org/csimux") },
    good: { "pod.yaml": pod("registry.internal/csimux") },
  },
  "placeholder-driver": {
    bad: { "driver.yaml": csiDriver("{ attachRequired: true }").replace("csimux.storage", "org.example.csimux") },
    good: { "driver.yaml": csiDriver("{ attachRequired: true }") },
  },
};
