package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight/flightsql/driver"
)

const (
	sqlClient = "go-database-sql"
	startMs   = int64(1_563_249_700_000)
)

var start = time.UnixMilli(startMs).UTC()

func (s server) open(change func(*driver.DriverConfig)) (*sql.DB, error) {
	config := driver.DriverConfig{Address: s.address, Token: s.token, Params: map[string]string{"database": "gosql"}}
	if s.tls != nil {
		config.TLSEnabled, config.TLSConfig = true, s.tls
	}
	if change != nil {
		change(&config)
	}
	return sql.Open("flightsql", config.DSN())
}

// one scans the single value of a query's single row.
func one[T any](db *sql.DB, query string, parameters ...any) (T, error) {
	var value T
	err := db.QueryRow(query, parameters...).Scan(&value)
	return value, err
}

func is[T any](db *sql.DB, expected T, query string, parameters ...any) error {
	found, err := one[T](db, query, parameters...)
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	return equal(found, expected)
}

func affected(db *sql.DB, expected int64, query string, parameters ...any) error {
	result, err := db.Exec(query, parameters...)
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	found, err := result.RowsAffected()
	if err != nil {
		return err
	}
	return equal(found, expected)
}

func databaseSQL(s server) error {
	db, err := s.open(nil)
	if err != nil {
		return err
	}
	defer db.Close()
	step := func(name string, run func() error) { step(sqlClient, name, run) }

	bare, err := s.open(func(c *driver.DriverConfig) { c.Params = map[string]string{} })
	if err != nil {
		return err
	}
	defer bare.Close()
	for _, sql := range []string{"drop database if exists gosql", "create database gosql"} {
		if _, err := bare.Exec(sql); err != nil {
			return err
		}
	}

	step("connect: ping", db.Ping)
	if s.user != "" {
		as := func(change func(*driver.DriverConfig)) error {
			db, err := s.open(change)
			if err != nil {
				return err
			}
			defer db.Close()
			return is(db, s.user, "select current_user()")
		}
		step("connect: user and password", func() error {
			return as(func(c *driver.DriverConfig) { c.Token, c.Username, c.Password = "", s.user, s.password })
		})
		step("connect: token", func() error { return as(nil) })
		step("connect: wrong password, wrong token and nobody are refused", func() error {
			return errors.Join(
				refused("", as(func(c *driver.DriverConfig) { c.Token, c.Username, c.Password = "", s.user, "wrong" })),
				refused("", as(func(c *driver.DriverConfig) { c.Token = "wrong" })),
				refused("", as(func(c *driver.DriverConfig) { c.Token = "" })),
			)
		})
	}
	if s.tls != nil {
		step("tls: an unknown certificate is refused", func() error {
			db, err := s.open(func(c *driver.DriverConfig) { c.TLSConfig = nil })
			if err != nil {
				return err
			}
			defer db.Close()
			return refused("certificate", is(db, int64(1), "select 1"))
		})
	}
	step("write: DDL, INSERT and DELETE count their rows", func() error {
		var values strings.Builder
		for device := range 5 {
			for row := range 20 {
				fmt.Fprintf(&values, "('d%d', %d, %d, %d, 'g%d') ", device, startMs+int64(row)*1000, device+row, device, device%2)
			}
		}
		return errors.Join(
			affected(db, 0, "create stable devices (ts timestamp, v double) tags (devid int, devgroup varchar(10))"),
			affected(db, 100, "insert into devices (tbname, ts, v, devid, devgroup) values "+values.String()),
			affected(db, 20, "delete from devices where devid = 4"),
			is(db, int64(80), "select count(*) from devices"),
		)
	})
	step("query: every type", func() error {
		var b bool
		var i8 int8
		var i16 int16
		var i32 int32
		var i64 int64
		var f float32
		var x float64
		var text string
		var bytes []byte
		var ts, date time.Time
		var null sql.NullString
		err := db.QueryRow("select true, arrow_cast(1, 'Int8'), arrow_cast(2, 'Int16'), arrow_cast(3, 'Int32'), 4, arrow_cast(1.5, 'Float32'), 2.25, "+
			"'text', X'00ff', timestamp '2019-07-16T04:01:40.123', cast('2020-02-29' as date), cast(null as varchar)").
			Scan(&b, &i8, &i16, &i32, &i64, &f, &x, &text, &bytes, &ts, &date, &null)
		return errors.Join(err, equal([]any{b, i8, i16, i32, i64, f, x, text, bytes, ts.UTC(), date.UTC(), null.Valid},
			[]any{true, int8(1), int16(2), int32(3), int64(4), float32(1.5), 2.25, "text", []byte{0, 255},
				start.Add(123 * time.Millisecond), time.Date(2020, 2, 29, 0, 0, 0, 0, time.UTC), false}))
	})
	step("query: columns and no rows", func() error {
		rows, err := db.Query("select 1 as a, 'x' as b where false")
		if err != nil {
			return err
		}
		defer rows.Close()
		names, err := rows.Columns()
		return errors.Join(err, equal(names, []string{"a", "b"}), equal(rows.Next(), false), rows.Err())
	})
	step("query: a million rows", func() error {
		rows, err := db.Query("select value from generate_series(1, 1000000)")
		if err != nil {
			return err
		}
		defer rows.Close()
		var count, total, value int64
		for rows.Next() {
			if err := rows.Scan(&value); err != nil {
				return err
			}
			count, total = count+1, total+value
		}
		return errors.Join(rows.Err(), equal(count, int64(1_000_000)), equal(total, int64(500_000_500_000)))
	})
	step("parameters: of every type in a query", func() error {
		return errors.Join(
			is(db, int64(20), "select count(*) from devices where devid = ?", int64(2)),
			is(db, int64(20), "select count(*) from devices where devid = ?", 2),
			is(db, int64(1), "select count(*) from devices where devid = 0 and v = ?", 7.0),
			is(db, int64(40), "select count(*) from devices where devgroup = ?", "g1"),
			is(db, int64(80), "select count(*) from devices where (devid < 100) = ?", true),
			is(db, int64(0), "select count(*) from devices where devgroup = ?", "' or 1 = 1 --"),
			is(db, int64(40), "select count(*) from devices where devid in (?, ?)", 1, 2),
			is(db, float64(3), "select v from devices where devid = 0 order by v limit ? offset ?", 1, 3),
		)
	})
	step("parameters: a text for a time", func() error {
		return is(db, int64(4), "select count(*) from devices where ts < cast(? as timestamp)", "2019-07-16T04:01:41Z")
	})
	known(sqlClient, "parameters: a time", "the driver knows no builder of timestamps", "unknown builder type *array.TimestampBuilder", func() error {
		return is(db, int64(4), "select count(*) from devices where ts < ?", start.Add(time.Second))
	}, func() error {
		other, err := named("CLIENT_REFERENCE")
		if err != nil {
			return err
		}
		db, err := other.open(nil)
		if err != nil {
			return err
		}
		defer db.Close()
		return is(db, int64(0), "select count(*) from intTable where value = ? /* parameters: timestamp */", start)
	})
	step("parameters: a prepared query, again and again", func() error {
		statement, err := db.Prepare("select count(*) from devices where devid = ? and v < ?")
		if err != nil {
			return err
		}
		defer statement.Close()
		for device := range 4 {
			var found int64
			if err := statement.QueryRow(device, float64(device+5)).Scan(&found); err != nil {
				return err
			}
			if err := equal(found, int64(5)); err != nil {
				return err
			}
		}
		return nil
	})
	step("parameters: INSERT of texts and numbers", func() error {
		if err := affected(db, 0, "create table bound (ts timestamp, i int, x double, s varchar(40), b bool)"); err != nil {
			return err
		}
		statement, err := db.Prepare("insert into bound (ts, i, x, s, b) values (1563249700000, ?, ?, ?, ?)")
		if err != nil {
			return err
		}
		defer statement.Close()
		result, err := statement.Exec(7, 0.5, `it's \ "quoted"`, true)
		if err != nil {
			return err
		}
		count, err := result.RowsAffected()
		return errors.Join(err, equal(count, int64(1)),
			is(db, int64(1), "select count(*) from bound where i = 7 and x = 0.5 and b and s = ?", `it's \ "quoted"`))
	})
	step("parameters: too few and of another type are refused", func() error {
		_, few := one[int64](db, "select count(*) from devices where devid = ? and v = ?", 1)
		_, other := one[int64](db, "select count(*) from devices where devid = ?", "not a number")
		return errors.Join(refused("", few), refused("", other))
	})
	step("transaction: is refused with the reason", func() error {
		_, err := db.Begin()
		return refused("transaction", err)
	})
	step("error: says what is wrong, and the pool goes on", func() error {
		try := func(sql string) error { _, err := one[int64](db, sql); return err }
		return errors.Join(
			refused("syntax error", try("selekt 1")),
			refused("nosuch", try("select * from nosuch")),
			refused("empty", try("")),
			is(db, int64(1), "select 1"),
		)
	})
	step("stop: a context that ends", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		begun := time.Now()
		rows, err := db.QueryContext(ctx, "select count(*) from generate_series(1, 3000000) a cross join generate_series(1, 3000000) b "+
			"where (a.value * b.value) % 7 = 3")
		if err == nil {
			for rows.Next() {
			}
			err = rows.Err()
			rows.Close()
		}
		if time.Since(begun) > 20*time.Second {
			return fmt.Errorf("took %v", time.Since(begun))
		}
		if err := refused("", err); err != nil {
			return err
		}
		for range 100 {
			left, err := one[int64](bare, "select count(*) from system.queries where sql like '%\\% 7 = 3%' and sql not like '%system%'")
			if err != nil || left == 0 {
				return err
			}
			time.Sleep(100 * time.Millisecond)
		}
		return errors.New("the query still runs")
	})
	step("pool: fifty queries at once", func() error {
		done := make(chan error, 50)
		for i := range 50 {
			go func() { done <- is(db, int64(80+i), fmt.Sprintf("select %d + count(*) from devices", i)) }()
		}
		var all error
		for range 50 {
			all = errors.Join(all, <-done)
		}
		return all
	})
	return nil
}
