/**
 * Whether a text can be a node name: a DNS subdomain (Kubernetes "Object Names and IDs"; RFC 1123), so never a path.
 */
export const isNodeName = (text: string): boolean => /^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/.test(text);
