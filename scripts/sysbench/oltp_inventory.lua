-- An event of sysbench: sells one piece of an article, as in PolarDB's measurements of hot rows (docs/scenarios/hot-row.md).
-- `sysbench --db-driver=pgsql … scripts/sysbench/oltp_inventory.lua prepare | run | cleanup`

sysbench.cmdline.options = {
   articles = {"Number of articles; each client sells a random one", 1},
   hint = {"Mark the update as the end of its transaction: none, comment (/*+ … */) or bare (PolarDB's older spelling)", "comment"},
   transaction = {"Sell inside a transaction that also records the order", false},
}

local HINTS = "COMMIT_ON_SUCCESS ROLLBACK_ON_FAIL TARGET_AFFECT_ROW"
local SPELLINGS = {
   none = "",
   comment = " /*+ " .. HINTS .. "(1) */",
   bare = " " .. HINTS .. " 1",
}

function thread_init()
   connection = sysbench.sql.driver():connect()
   update = "UPDATE" .. SPELLINGS[sysbench.opt.hint] .. " inventory SET sold = sold + 1 WHERE id = "
end

function thread_done()
   connection:disconnect()
end

function prepare()
   local connection = sysbench.sql.driver():connect()
   connection:query("CREATE TABLE inventory (id int PRIMARY KEY, sold bigint NOT NULL)")
   connection:query("CREATE TABLE sale (id bigserial PRIMARY KEY, article int NOT NULL)")
   connection:query("INSERT INTO inventory SELECT g, 0 FROM generate_series(1, " .. sysbench.opt.articles .. ") g")
   connection:disconnect()
end

function cleanup()
   local connection = sysbench.sql.driver():connect()
   connection:query("DROP TABLE IF EXISTS inventory, sale")
   connection:disconnect()
end

function event()
   local article = sysbench.rand.uniform(1, sysbench.opt.articles)
   if not sysbench.opt.transaction then
      connection:query(update .. article)
      return
   end
   connection:query("BEGIN")
   connection:query("INSERT INTO sale (article) VALUES (" .. article .. ")")
   connection:query(update .. article)
   -- The hint commits.
   if sysbench.opt.hint == "none" then
      connection:query("COMMIT")
   end
end
