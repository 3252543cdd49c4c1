// Filebeat with the inputs that the benchmarks use, and no more.
package main

import (
	"os"

	"github.com/elastic/beats/v7/filebeat/cmd"
	_ "github.com/elastic/beats/v7/filebeat/input/container"
	"github.com/elastic/beats/v7/filebeat/input/filestream"
	_ "github.com/elastic/beats/v7/filebeat/input/log"
	v2 "github.com/elastic/beats/v7/filebeat/input/v2"
	"github.com/elastic/beats/v7/filebeat/beater"
	"github.com/elastic/beats/v7/libbeat/beat"
	"github.com/elastic/beats/v7/libbeat/logp"
)

func inputs(_ beat.Info, log *logp.Logger, store beater.StateStore) []v2.Plugin {
	return []v2.Plugin{filestream.Plugin(log, store)}
}

func main() {
	if err := cmd.Filebeat(inputs, cmd.FilebeatSettings()).Execute(); err != nil {
		os.Exit(1)
	}
}
