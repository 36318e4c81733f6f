// Command dns is CoreDNS with the one plugin that a test bed needs: names of Services and pods. All of
// CoreDNS links the clients of four cloud providers and takes five times as long to build.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() { coremain.Run() }
