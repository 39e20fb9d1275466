set -e
sqlite3 db.sqlite <<'END'
create table t(id integer primary key, name text, value real);
begin;
with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000)
insert into t select i, 'name ' || (i * 7919 % 100003), i * 0.5 from n;
commit;
create index by_name on t(name);
select count(*), sum(value), min(name), max(name) from t;
select id from t where name = 'name 4242';
explain query plan select id from t where name = 'x';
update t set value = value + 1 where id % 10 = 0;
delete from t where id > 90000;
select substr(name, 6, 1), count(*), round(avg(value), 3) from t group by 1 order by 1;
pragma integrity_check;
vacuum;
END
sqlite3 db.sqlite 'select * from none' 2>/dev/null || echo "status $?"
sqlite3 -csv db.sqlite 'select * from t order by name limit 3'
sqlite3 db.sqlite .dump | sha256sum
