name = "n2"
ports {
  http = 4246
  rpc  = 4247
  serf = 4248
}
client {
  meta {
    zone = "z2"
  }
}
