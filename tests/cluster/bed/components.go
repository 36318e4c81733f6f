package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/spf13/pflag"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cliflag "k8s.io/component-base/cli/flag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	apiserverapp "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveroptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	controllerapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	controlleroptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	schedulerapp "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

// The components are started from their exported parts and not from their cobra commands: each command
// installs the process's one signal handler, and installing it twice panics.

const (
	readyInterval = 50 * time.Millisecond
	readyTimeout  = 60 * time.Second
)

// prepareAPIServer returns the API server, complete and validated but not running, and the feature gates that
// its flags set for the whole process.
func prepareAPIServer(ctx context.Context, args []string) (func(context.Context) error, featuregate.FeatureGate, error) {
	options := apiserveroptions.NewServerRunOptions()
	if err := parseFlags("kube-apiserver", options.Flags(), args); err != nil {
		return nil, nil, err
	}
	registry := options.GenericServerRunOptions.ComponentGlobalsRegistry
	if err := registry.Set(); err != nil {
		return nil, nil, err
	}
	gates := registry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(options.Logs, gates); err != nil {
		return nil, nil, err
	}
	completed, err := options.Complete(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := errors.Join(completed.Validate()...); err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) error { return apiserverapp.Run(ctx, completed) }, gates, nil
}

func runControllerManager(ctx context.Context, args []string, gates featuregate.FeatureGate) error {
	known, disabled, aliases := controllerapp.KnownControllers(), controllerapp.ControllersDisabledByDefault(), controllerapp.ControllerAliases()
	options, err := controlleroptions.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	if err := parseFlags("kube-controller-manager", options.Flags(known, disabled, aliases), args); err != nil {
		return err
	}
	if err := logsapi.ValidateAndApply(options.Logs, gates); err != nil {
		return err
	}
	config, err := options.Config(ctx, known, disabled, aliases)
	if err != nil {
		return err
	}
	return controllerapp.Run(ctx, config.Complete())
}

func runScheduler(ctx context.Context, args []string, gates featuregate.FeatureGate) error {
	options := scheduleroptions.NewOptions()
	if err := parseFlags("kube-scheduler", *options.Flags, args); err != nil {
		return err
	}
	if err := logsapi.ValidateAndApply(options.Logs, gates); err != nil {
		return err
	}
	config, scheduler, err := schedulerapp.Setup(ctx, options)
	if err != nil {
		return err
	}
	return schedulerapp.Run(ctx, config, scheduler)
}

func parseFlags(component string, sets cliflag.NamedFlagSets, args []string) error {
	flags := pflag.NewFlagSet(component, pflag.ContinueOnError)
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	for _, set := range sets.FlagSets {
		flags.AddFlagSet(set)
	}
	return flags.Parse(args)
}

// waitReady returns once the API server behind kubeconfig answers /readyz with 200.
func waitReady(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.Timeout = 2 * time.Second
	client, err := restclient.HTTPClientFor(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	for {
		if answersOK(client, config.Host+"/readyz") {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("the API server was not ready after " + readyTimeout.String() + "; its log tells why")
		case <-tick.C:
		}
	}
}

func answersOK(client *http.Client, url string) bool {
	answer, err := client.Get(url)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}
