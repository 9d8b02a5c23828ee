/** Topology of CSI: keys with their full prefix → values. One entry of a list is one place; its keys are AND (CSI "Topology"). */
export type Segments = Readonly<Record<string, string>>;
