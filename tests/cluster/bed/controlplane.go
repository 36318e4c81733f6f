package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	restclient "k8s.io/client-go/rest"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

// drainTimeout bounds the wait for the components after a signal. They stop within 2 s when idle; an open
// watch can hold the API server a little longer.
const drainTimeout = 20 * time.Second

// controlPlaneConfig is what the orchestrator hands over: the flags of each component as upstream documents
// them, so that changing one needs no new build.
type controlPlaneConfig struct {
	EtcdDir           string   `json:"etcdDir"`
	EtcdURL           string   `json:"etcdURL"`
	Kubeconfig        string   `json:"kubeconfig"`
	APIServer         []string `json:"apiServer"`
	ControllerManager []string `json:"controllerManager"`
	Scheduler         []string `json:"scheduler"`
}

// stopped tells that a component returned, and why.
type stopped struct {
	component string
	err       error
}

func (s stopped) Error() string { return fmt.Sprintf("%s stopped: %v", s.component, s.err) }

// runControlPlane runs etcd, API server, controller-manager and scheduler until a signal, or until one of
// them returns, which is an error.
func runControlPlane(args []string) error {
	config, err := readControlPlaneConfig(args)
	if err != nil {
		return err
	}
	// Three components apply their logging options to the one logger of this process.
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	logs.InitLogs()
	defer logs.FlushLogs()
	restclient.SetDefaultWarningHandler(restclient.NoWarnings{})
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()

	etcd, err := startEtcd(config.EtcdDir, config.EtcdURL)
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	defer etcd.Close()

	ended := make(chan stopped, 3)
	running, err := startComponents(ctx, config, ended)
	if err == nil {
		err = waitForEnd(ctx, ended)
	}
	cancel()
	return errors.Join(err, drain(ended, running-endedBefore(err)))
}

// startComponents starts the three components in their order and returns how many run. The controller-manager
// and the scheduler wait for /readyz: after /livez alone their RBAC rules are not there yet, and they exit.
func startComponents(ctx context.Context, config controlPlaneConfig, ended chan<- stopped) (int, error) {
	start := func(component string, run func() error) {
		go func() { ended <- stopped{component, run()} }()
	}
	apiServer, gates, err := prepareAPIServer(ctx, config.APIServer)
	if err != nil {
		return 0, fmt.Errorf("kube-apiserver: %w", err)
	}
	start("kube-apiserver", func() error { return apiServer(ctx) })
	if err := waitReady(ctx, config.Kubeconfig); err != nil {
		return 1, err
	}
	start("kube-controller-manager", func() error { return runControllerManager(ctx, config.ControllerManager, gates) })
	start("kube-scheduler", func() error { return runScheduler(ctx, config.Scheduler, gates) })
	return 3, nil
}

func waitForEnd(ctx context.Context, ended <-chan stopped) error {
	select {
	case <-ctx.Done():
		return nil
	case end := <-ended:
		return end
	}
}

// endedBefore is 1 when err is the end of a component, which then is not waited for again.
func endedBefore(err error) int {
	var end stopped
	if errors.As(err, &end) {
		return 1
	}
	return 0
}

func drain(ended <-chan stopped, running int) error {
	deadline := time.After(drainTimeout)
	for ; running > 0; running-- {
		select {
		case <-ended:
		case <-deadline:
			return fmt.Errorf("%d components still run %s after the signal", running, drainTimeout)
		}
	}
	return nil
}

func readControlPlaneConfig(args []string) (controlPlaneConfig, error) {
	var config controlPlaneConfig
	if len(args) != 1 {
		return config, errors.New("give one argument, the configuration's JSON file")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return config, err
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return config, fmt.Errorf("%s is not a control plane configuration: %w", args[0], err)
	}
	return config, nil
}
