name = "n1"
ports {
  http = 4146
  rpc  = 4147
  serf = 4148
}
client {
  meta {
    zone = "z1"
  }
}
