package main

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

type measured struct {
	URL     string  `json:"url"`
	Run     int     `json:"run"`
	Rows    int64   `json:"rows"`
	Seconds float64 `json:"seconds"`
}

// throughput runs THROUGHPUT_SQL on the servers of THROUGHPUT_URLS alternately and prints the time of each run; run 0 is
// cold.
func throughput() error {
	ctx := context.Background()
	runs, err := strconv.Atoi(os.Getenv("THROUGHPUT_RUNS"))
	if err != nil {
		return err
	}
	urls := strings.Fields(os.Getenv("THROUGHPUT_URLS"))
	clients := make([]*flightsql.Client, len(urls))
	for i, text := range urls {
		place, err := url.Parse(text)
		if err != nil {
			return err
		}
		clients[i], err = flightsql.NewClient(place.Host, nil, nil, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer clients[i].Close()
	}
	out := json.NewEncoder(os.Stdout)
	for run := 0; run <= runs; run++ {
		for i, client := range clients {
			begun := time.Now()
			rows, err := count(ctx, client)
			if err != nil {
				return err
			}
			if err := out.Encode(measured{urls[i], run, rows, time.Since(begun).Seconds()}); err != nil {
				return err
			}
		}
	}
	return nil
}

func count(ctx context.Context, client *flightsql.Client) (int64, error) {
	info, err := client.Execute(ctx, os.Getenv("THROUGHPUT_SQL"))
	if err != nil {
		return 0, err
	}
	var rows int64
	for _, endpoint := range info.Endpoint {
		reader, err := client.DoGet(ctx, endpoint.Ticket)
		if err != nil {
			return 0, err
		}
		for reader.Next() {
			rows += reader.RecordBatch().NumRows()
		}
		err = reader.Err()
		reader.Release()
		if err != nil {
			return 0, err
		}
	}
	return rows, nil
}
