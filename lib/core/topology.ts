/**
 * CSI topology: keys with their full prefix → values. One entry of a list is one location; its keys are ANDed (CSI
 * "Topology").
 */
export type Segments = Readonly<Record<string, string>>;
