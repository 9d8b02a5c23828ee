/** The name under which kubectl finds its plugin `kubectl csimux` (kubectl's documentation, "Extend kubectl with plugins"). */
export const pluginName = "kubectl-csimux";
