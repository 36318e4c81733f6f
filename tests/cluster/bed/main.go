// Command bed holds every Kubernetes program that the test bed runs, in one file: the control plane in one
// process, and the node's and the user's commands as they are upstream. One binary instead of seven links
// once, and starts from one page cache.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	kubectl "k8s.io/kubectl/pkg/cmd"
	proxyapp "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
)

// upstream are commands taken as they are. Each is built only when asked for: their constructors register
// flags and metrics in process-wide tables.
var upstream = map[string]func() *cobra.Command{
	"kubelet":    func() *cobra.Command { return kubeletapp.NewKubeletCommand(context.Background()) },
	"kube-proxy": proxyapp.NewProxyCommand,
	"kubectl":    kubectl.NewDefaultKubectlCommand,
}

// own are commands that exist only here.
var own = map[string]func(args []string) error{
	"control-plane": runControlPlane,
	"certificates":  writeCertificates,
}

func main() {
	// A link named kubectl acts as kubectl.
	if build, ok := upstream[filepath.Base(os.Args[0])]; ok {
		os.Exit(cli.Run(build()))
	}
	if len(os.Args) < 2 {
		fail("no command given; use one of control-plane, certificates, kubelet, kube-proxy, kubectl")
	}
	name := os.Args[1]
	if build, ok := upstream[name]; ok {
		os.Args = os.Args[1:]
		os.Exit(cli.Run(build()))
	}
	run, ok := own[name]
	if !ok {
		fail(fmt.Sprintf("unknown command %q; use one of control-plane, certificates, kubelet, kube-proxy, kubectl", name))
	}
	if err := run(os.Args[2:]); err != nil {
		fail(fmt.Sprintf("%s: %v", name, err))
	}
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, "bed:", message)
	os.Exit(1)
}
