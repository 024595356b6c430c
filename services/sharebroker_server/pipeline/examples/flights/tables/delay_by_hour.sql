SELECT
  hour,
  count(*) AS flights,
  round(avg(dep_delay), 2) AS departure_minutes,
  round(avg(arr_delay), 2) AS arrival_minutes,
  percentile_approx(arr_delay, 0.9) AS arrival_minutes_p90,
  round(avg(IF(arr_delay > 15, 1.0, 0.0)), 4) AS late_share
FROM silver_records
GROUP BY hour
