package kubernetescmd

import (
	"time"

	"github.com/docket-export/docket/exporter"
)

const (
	// probeBytes are two probes that run at a time: they count for the container too.
	probeBytes = 2 * 8 << 20
	// memoryStep is what a memory limit is a multiple of.
	memoryStep = 16 << 20
	// volumeStep is what the size of a volume is a multiple of.
	volumeStep = 1 << 20
	// closingTime is what docket takes beyond shutdown.drainTimeout to close what hangs.
	closingTime = 10 * time.Second
)

// memoryLimit is the least limit of a container that no peer can have docket killed in.
func memoryLimit(cfg *exporter.Config) int64 {
	return roundUp(exporter.MemoryCeiling(cfg.Memory())+probeBytes, memoryStep)
}

// volumeBytes is the least size of a volume that docket never fills. Parts without a bound
// count for nothing.
func volumeBytes(cfg *exporter.Config) (bytes int64) {
	for _, p := range cfg.Disk() {
		bytes += p.Bytes
	}
	return roundUp(bytes, volumeStep)
}

// gracePeriod is the least terminationGracePeriodSeconds of a pod in which docket is told
// to stop after delay, when the engine has ended.
func gracePeriod(cfg *exporter.Config, delay time.Duration) int64 {
	return roundUp(int64(delay+time.Duration(cfg.Shutdown.DrainTimeout)+closingTime), int64(time.Second)) / int64(time.Second)
}

func roundUp(n, step int64) int64 { return (n + step - 1) / step * step }
