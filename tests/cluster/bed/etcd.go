package main

import (
	"errors"
	"net/url"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// etcdStartTimeout is far above the fraction of a second that an empty or small store needs.
const etcdStartTimeout = 30 * time.Second

// startEtcd starts a single member that listens for clients only and does not sync to disk: a test bed that
// loses its machine is made anew.
func startEtcd(dir, clientURL string) (*embed.Etcd, error) {
	client, err := url.Parse(clientURL)
	if err != nil {
		return nil, err
	}
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	config := embed.NewConfig()
	config.Dir = dir
	config.ListenClientUrls = []url.URL{*client}
	config.AdvertiseClientUrls = []url.URL{*client}
	config.ListenPeerUrls = []url.URL{}
	config.AdvertisePeerUrls = []url.URL{peer}
	config.InitialCluster = config.Name + "=" + peer.String()
	config.UnsafeNoFsync = true
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return nil, err
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, nil
	case <-time.After(etcdStartTimeout):
		etcd.Close()
		return nil, errors.New("not ready after " + etcdStartTimeout.String())
	}
}
