package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// certificatesConfig says who must be able to prove what. Everything is written below Dir: a pair NAME.crt and
// NAME.key each, and NAME.kubeconfig for those that call the API.
type certificatesConfig struct {
	Dir    string `json:"dir"`
	Server string `json:"server"`
	// ServerNames are the addresses and names under which the API server is called.
	ServerNames []string `json:"serverNames"`
	// Nodes maps a node's name to the address at which its kubelet serves.
	Nodes map[string]string `json:"nodes"`
}

// callers are the identities that call the API: file name, user, group.
var callers = []struct{ file, user, group string }{
	{"admin", "admin", "system:masters"},
	{"controller-manager", "system:kube-controller-manager", ""},
	{"scheduler", "system:kube-scheduler", ""},
	{"proxy", "system:kube-proxy", ""},
	// The DNS server reads Services and EndpointSlices; upstream binds those rights to no built-in user.
	{"dns", "bed-dns", "system:masters"},
}

// writeCertificates writes what is missing and leaves the rest as it is, so that a node can join a running bed.
func writeCertificates(args []string) error {
	config, err := readCertificatesConfig(args)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(config.Dir, 0o700); err != nil {
		return err
	}
	ca, err := loadOrCreateAuthority(config.Dir)
	if err != nil {
		return err
	}
	if err := ensureServiceAccountKey(config.Dir); err != nil {
		return err
	}
	for _, subject := range config.subjects() {
		if err := ca.ensure(config.Dir, subject); err != nil {
			return fmt.Errorf("%s: %w", subject.file, err)
		}
		if !subject.calls {
			continue
		}
		if err := writeKubeconfig(config, subject.file); err != nil {
			return fmt.Errorf("%s: %w", subject.file, err)
		}
	}
	return nil
}

func (config certificatesConfig) subjects() []subject {
	subjects := []subject{
		{file: "apiserver", user: "kube-apiserver", names: config.ServerNames, serves: true},
		{file: "kubelet-client", user: "apiserver-kubelet-client", group: "system:masters"},
		{file: "front-proxy", user: "front-proxy-client"},
	}
	for _, caller := range callers {
		subjects = append(subjects, subject{file: caller.file, user: caller.user, group: caller.group, calls: true})
	}
	for name, address := range config.Nodes {
		subjects = append(subjects, subject{
			file: name, user: "system:node:" + name, group: "system:nodes", names: []string{name, address}, serves: true, calls: true,
		})
	}
	return subjects
}

// writeKubeconfig writes a kubeconfig that holds its keys itself, so that it can be copied anywhere.
func writeKubeconfig(config certificatesConfig, name string) error {
	read := func(file string) []byte {
		text, _ := os.ReadFile(filepath.Join(config.Dir, file)) // written just before; an empty one fails at its first use
		return text
	}
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["bed"] = &clientcmdapi.Cluster{Server: config.Server, CertificateAuthorityData: read("ca.crt")}
	kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: read(name + ".crt"), ClientKeyData: read(name + ".key")}
	kubeconfig.Contexts["bed"] = &clientcmdapi.Context{Cluster: "bed", AuthInfo: name}
	kubeconfig.CurrentContext = "bed"
	return clientcmd.WriteToFile(*kubeconfig, filepath.Join(config.Dir, name+".kubeconfig"))
}

func readCertificatesConfig(args []string) (certificatesConfig, error) {
	var config certificatesConfig
	if len(args) != 1 {
		return config, errors.New("give one argument, the configuration's JSON file")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return config, err
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return config, fmt.Errorf("%s is not a certificates configuration: %w", args[0], err)
	}
	return config, nil
}
