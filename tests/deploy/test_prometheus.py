"""Prometheus' own tool checks the configuration and the rules; each alert fires when it should."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.architecture.sources import ROOT
from tests.deploy.chart import CHART

PROMTOOL = os.environ.get("PROMTOOL") or shutil.which("promtool")
RULES = CHART / "files" / "rules.yaml"

pytestmark = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed: apt-get install prometheus (PROMTOOL names another)"
)


_RISES, _STAYS = "0+10x90", "1+0x90"
# The series of each alert, a minute between two values.
TROUBLE = {
    "SharebrokerRedisUnreachable": {"sharebroker_redis_connected": "0+0x90"},
    "SharebrokerRoleMissing": {'sharebroker_members{role="gateway"}': _STAYS},
    "SharebrokerLeasesWithoutOwner": {'sharebroker_leases_missing{kind="partition"}': _STAYS},
    "SharebrokerAppendsFail": {'sharebroker_log_append_failures_total{log="group"}': _RISES},
    "SharebrokerInternalErrors": {'sharebroker_rpc_calls_total{code="INTERNAL"}': _RISES},
    "SharebrokerRestarts": {"process_start_time_seconds": _RISES, "sharebroker_build_info": _STAYS},
    "SharebrokerOldestRecordLag": {
        "sharebroker_share_group_oldest_unaccepted_seconds": "901+0x90",
        'sharebroker_share_group_records{state="locked"}': _STAYS,
    },
    "SharebrokerRetentionMargin": {
        "sharebroker_share_group_retention_margin_seconds": "19+0x90",
        "sharebroker_share_group_oldest_unaccepted_seconds": "81+0x90",
    },
    "SharebrokerUpstreamTruncation": {"sharebroker_upstream_truncations_total": "0+0x50 1+0x40"},
    "SharebrokerGroupWithoutMembers": {
        "sharebroker_share_group_members": "0+0x90",
        'sharebroker_share_group_records{state="ready"}': _STAYS,
    },
    "SharebrokerLockTimeouts": {
        "sharebroker_share_group_acquisition_lock_timeouts_total": _RISES,
        "sharebroker_share_group_records_acquired_total": "0+100x90",
    },
    "SharebrokerDeliveryLimitReached": {
        'sharebroker_share_group_records_archived_total{reason="attempts"}': _RISES
    },
    "SharebrokerDeadLettersHeld": {"sharebroker_share_group_archiving_oldest_seconds": "61+60x90"},
    "SharebrokerArchivingLimitReached": {"sharebroker_share_group_archiving_full_partitions": _STAYS},
    "SharebrokerGroupPaused": {"sharebroker_share_group_paused": _STAYS},
    "SharebrokerAppendsSlow": {
        'sharebroker_log_append_seconds_bucket{le="0.25"}': "0+0x90",
        'sharebroker_log_append_seconds_bucket{le="1"}': _RISES,
        'sharebroker_log_append_seconds_bucket{le="+Inf"}': _RISES,
    },
    "SharebrokerEventLoopLag": {
        'sharebroker_event_loop_lag_seconds_bucket{le="0.2"}': "0+0x90",
        'sharebroker_event_loop_lag_seconds_bucket{le="1"}': _RISES,
        'sharebroker_event_loop_lag_seconds_bucket{le="+Inf"}': _RISES,
    },
}


def promtool(*words: str) -> str:
    """Returns its output; it has to succeed."""
    done = subprocess.run([str(PROMTOOL), *words], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_compose_prometheus_config_is_valid(tmp_path: Path) -> None:
    text = (ROOT / "deploy" / "compose" / "prometheus.yml").read_text()
    config = tmp_path / "prometheus.yml"
    config.write_text(text.replace("/etc/prometheus/rules.yaml", str(RULES)))
    assert f"{len(rules())} rules found" in promtool("check", "config", str(config))


def rules() -> list[dict[str, str]]:
    """Returns the rules of the file."""
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    found: list[dict[str, str]] = group["rules"]
    return found


def test_no_alert_fires_without_data(tmp_path: Path) -> None:
    silent = [{"eval_time": "1h", "alertname": rule["alert"], "exp_alerts": []} for rule in rules()]
    case = tmp_path / "silence.yml"
    tests = [{"interval": "1m", "input_series": [], "alert_rule_test": silent}]
    case.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": tests}))
    promtool("test", "rules", str(case))


def test_each_alert_fires_alone(tmp_path: Path) -> None:
    assert set(TROUBLE) == {rule["alert"] for rule in rules()}
    tests = []
    for alert, series in TROUBLE.items():
        expected = [{"labels": f'{{alertname="{alert}"}}', "value": 1}]
        query = 'count by (alertname) (ALERTS{alertstate="firing"})'
        tests.append(
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [{"expr": query, "eval_time": "1h", "exp_samples": expected}],
            }
        )
    case = tmp_path / "trouble.yml"
    case.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": tests}))
    promtool("test", "rules", str(case))


def test_other_release_does_not_suppress_an_alert(tmp_path: Path) -> None:
    series = [
        {"series": f'sharebroker_members{{release="{release}",role="{role}"}}', "values": _STAYS}
        for release, roles in (("whole", "abcd"), ("lame", "abc"))
        for role in roles
    ]
    expected = [{"labels": '{alertname="SharebrokerRoleMissing",release="lame"}', "value": 1}]
    query = 'count by (alertname, release) (ALERTS{alertstate="firing"})'
    test = {
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [{"expr": query, "eval_time": "1h", "exp_samples": expected}],
    }
    case = tmp_path / "two.yml"
    case.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": [test]}))
    promtool("test", "rules", str(case))


def test_alert_fires_when_no_process_remains(tmp_path: Path) -> None:
    roles = ("gateway", "group-coordinator", "share-partition-leader", "share-coordinator")
    series = [
        {"series": f'sharebroker_members{{release="gone",role="{role}"}}', "values": "1x20 stale"}
        for role in roles
    ]
    query = 'count by (alertname, release) (ALERTS{alertstate="firing"})'
    away = [{"labels": '{alertname="SharebrokerRoleMissing",release="gone"}', "value": 1}]
    expected = [
        {"expr": query, "eval_time": time, "exp_samples": samples}
        for time, samples in (("19m", []), ("23m", away), ("1h", away))
    ]
    case = tmp_path / "gone.yml"
    test = {"interval": "1m", "input_series": series, "promql_expr_test": expected}
    case.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": [test]}))
    promtool("test", "rules", str(case))
